"""The messages about late data: what they say, as text, as HTML, and as mail.

Here: sentences and tables from a report. Not here: sending (`mail`, `delivery`), plots (`pictures`), figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from shlex import quote
from typing import Any

from feed_assets.notices.tables import Report
from feed_assets.sources.growth import rounded_growth
from feed_assets.sources.mail_address import parsed_address

DETECTED, ENDED = "detected", "ended"
PLOT = "plot@feed-assets"


@dataclass(frozen=True, slots=True)
class Table:
    """Names, and rows of texts; the first column is text, the others are numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Notice:
    """A message: its subject, paragraphs and tables, the assets it is about, and who gets it beside the usual ones."""

    subject: str
    body: tuple[str | Table, ...]
    recipients: tuple[str, ...]
    kind: str
    command: str

    @property
    def lines(self) -> list[str]:
        """The body as lines of text."""
        return [line for block in self.body for line in ([block] if isinstance(block, str) else _table_lines(block))]

    @property
    def text(self) -> str:
        """The body as plain text."""
        return "\n".join([*self.lines, "", f"More: {self.command}", ""])

    def html(self, *, picture: bool) -> str:
        """The body as HTML, with the attached picture if there is one."""
        parts = [f"<h2>{escape(self.subject)}</h2>"]
        parts += [f"<p>{escape(each)}</p>" if isinstance(each, str) else _table_html(each) for each in self.body]
        if picture:
            parts.append(f'<p><img src="cid:{PLOT}" alt="{escape(self.subject)}"></p>')
        parts.append(f"<p>More: <code>{escape(self.command)}</code></p>")
        return f'<html><body style="font-family: sans-serif">{"".join(parts)}</body></html>'


def notice_of(report: Report, message: str) -> Notice:
    """The message about a report: DETECTED when its run was requested, ENDED when the run has ended."""
    body = list(_detected(report) if message == DETECTED else _ended(report))
    outcome = "late data" if message == DETECTED else str((report.result or {})["outcome"])
    return Notice(
        subject=_subject(report, message),
        body=tuple(body),
        recipients=tuple(sorted({each for source in report.request["sources"] for each in source["recipients"]})),
        kind={"success": "reprocessed"}.get(outcome, outcome),
        command=f"feed-assets explain {report.day}",
    )


def mail(
    notice: Notice, name: str, *, sender: str, to: Sequence[str], at: datetime, plot: bytes | None
) -> EmailMessage:
    """The notice as mail: text, HTML, and the plot inside it, in lines of 7-bit bytes that every server takes.

    Its Message-ID follows from `name`: a mail that is sent again has the same, so that receivers can drop it.
    """
    made, from_ = EmailMessage(policy=SMTP.clone(cte_type="7bit")), parsed_address(sender)
    subject = " ".join(notice.subject.split())
    made["Subject"], made["From"], made["To"] = subject, from_, list(map(parsed_address, to))
    made["Date"], made["Message-ID"] = format_datetime(at), f"<{name}@{from_.domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(notice.text)
    made.add_alternative(notice.html(picture=plot is not None), subtype="html")
    if plot is not None:
        html = made.get_payload()[1]  # type: ignore[index] # a message with an alternative has parts
        html.add_related(plot, "image", "png", cid=f"<{PLOT}>", filename="plot.png")  # type: ignore[union-attr] # as above
    return made


def shares(figures: Mapping[str, Any]) -> set[str]:
    """The ratios of a comparison that are shown in percent: those that are at most 1 in all."""
    totals = figures["totals"]
    return {name for name in figures["ratios"] if all(each is None or each <= 1 for each in totals[name])}


def change(before: float | None, after: float | None, *, share: bool = False) -> str:
    """Two values and their difference: `1,000 -> 1,100 (+10.0 %)`; of shares in percentage points."""
    shown = f"{_shown(before, share=share)} -> {_shown(after, share=share)}"
    difference = _difference(before, after, share=share)
    return f"{shown} ({difference})" if difference else shown


def _subject(report: Report, message: str) -> str:
    late = ", ".join(f"{each['source']} {_grown(each['decision'])}" for each in report.request["sources"])
    if message == DETECTED:
        return f"Late data for {report.day}: {late}"
    words = {"success": "processed again", "rejected": "rejected by its checks", "failed": "failed"}
    outcome = (report.result or {})["outcome"]
    return f"Late data for {report.day} {words.get(outcome, outcome)}: {late}"


def _grown(decision: Mapping[str, Any]) -> str:
    percent, kind = decision["growth_percent"], str(decision["kind"]).replace("_", " ")
    if _unchanged(decision):
        return "evening before changed"
    return f"{rounded_growth(Decimal(percent), 1):+f} %" if percent is not None and float(percent) else kind


def _unchanged(decision: Mapping[str, Any]) -> bool:
    """Whether the day has the data that was processed: a run is requested as the evening before has other data."""
    return bool(decision["kind"] == "unchanged")


def _detected(report: Report) -> Iterator[str | Table]:
    evening = all(_unchanged(each["decision"]) for each in report.request["sources"])
    what = f"the evening before {report.day}" if evening else report.day
    yield f"Data of {what} came after the day was processed. A run is requested."
    yield from (str(each["sentence"]) for each in report.request["sources"])
    before = report.request["before"]
    in_force = ", ".join(f"{feed} {update or 'none'}" for feed, update in sorted(before.items()))
    yield f"Until it has published, these updates stay in force: {in_force}."


def _ended(report: Report) -> Iterator[str | Table]:
    result = report.result or {}
    yield {
        "success": f"The day {report.day} was processed again.",
        "rejected": f"The new result of {report.day} was rejected by its checks: readers keep what they had.",
        "superseded": "A newer request, or another run, took its place before it became a run.",
        "gone back": f"Before a run began, the data of {report.day} changed again: none is needed, and readers keep "
        "what they had.",
        "failed": f"The run for {report.day} failed: readers keep what they had of each feed that it did not publish.",
    }[result["outcome"]]
    yield from result.get("reasons", ())
    yield from (str(each["sentence"]) for each in report.request["sources"])
    for each in result.get("feeds", ()):
        yield from _of_feed(report, each)
    if result["run"]:
        yield f"Run {result['run']}, ended {result['ended'][:19].replace('T', ' ')}."


def _of_feed(report: Report, found: Mapping[str, Any]) -> Iterator[str | Table]:
    if found["after"] is None:
        yield f"{found['feed']}: {found['state']}; {found['before'] or 'nothing'} stays in force."
        return
    yield f"{found['feed']}: {found['before'] or 'nothing'} -> {found['after']}, rows {change(*found['rows'])}"
    if (in_force := found.get("in_force", found["after"])) != found["after"]:
        yield f"It is not in force: readers have {in_force or 'no update'}."
    if found.get("problem"):
        yield f"Its figures are not known: {found['problem']}"
    if figures := found["figures"]:
        percentages = shares(figures)
        known = {name: pair for name, pair in figures["totals"].items() if pair != [None, None]}
        yield Table(
            ["in all", "before", "after", "change"],
            [[name, *_cells(pair, share=name in percentages)] for name, pair in known.items()],
        )
        names = [name for name in known if name != "rows"]
        movers = [
            [each["group"] or "-", *(change(*each[name], share=name in percentages) for name in names)]
            for each in figures["movers"]
        ]
        yield f"By {figures['by']}, those of {figures['groups']:,} that moved most:"
        yield Table([figures["by"], *names], movers)
    if found["before"]:
        # Not an address of the time of the run: the base may have moved since then.
        feed = quote(f"{report.base.rstrip('/')}/{found['feed']}")
        updates = f"--from {found['before']} --to {found['after']}"
        identity = found.get("identity")  # reports of earlier versions have none
        key = f" --key {quote(','.join(identity))}" if identity else ""
        yield f"Row by row: feed-assets feed diff {feed} -p {report.day} {updates}{key}"


def _cells(pair: Sequence[float | None], *, share: bool) -> list[str]:
    before, after = pair
    difference = _difference(before, after, share=share)
    return [_shown(before, share=share), _shown(after, share=share), difference or "none"]


def _difference(before: float | None, after: float | None, *, share: bool) -> str:
    """The difference in percent, of shares in percentage points; "" if there is none, or it is unknown."""
    if before is None or after is None or before == after:
        return ""
    if share:
        return f"{100 * (after - before):+.3f} points"
    return f"{(after - before) / before:+.1%}".replace("%", " %") if before else ""


def _shown(value: float | None, *, share: bool = False) -> str:
    if value is None:
        return "-"
    if share:
        return f"{100 * value:.3f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def _table_lines(table: Table) -> list[str]:
    columns = list(zip(table.header, *table.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in (table.header, *table.rows):
        first, *others = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  " + "  ".join([first, *others]))
    return lines


def _table_html(table: Table) -> str:
    head = "".join(f'<th style="text-align: left; padding: 2px 10px">{escape(each)}</th>' for each in table.header)
    rows = "".join(
        "<tr>" + "".join(f'<td style="padding: 2px 10px">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<table><tr>{head}</tr>{rows}</table>"
