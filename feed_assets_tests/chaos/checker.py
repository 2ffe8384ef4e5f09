"""The checker: whether histories and the final storage show that a guarantee was broken.

Here: one function for each guarantee. Not here: running workers (see `run`). It uses nothing of the library: it judges
by what workers noted, by the contents of files, and by the plain rule.

- whole: no reader ever saw a torn, mixed or damaged update, nor does storage hold a valid one.
- staged: no reader saw a rejected update, nor an invalidated one after the invalidation was acknowledged.
- lost: an acknowledged publication is in force until it is invalidated, superseded, or removed by retention's rules.
- retention: it removed only what as many newer updates as it keeps had outdated, and nothing that was pinned.
- watched: at the end a watcher knows the update in force of each partition, and has reported each that is there.
- landed: a landing counts in all of its hours or in none, for good; its raw files are its own.
- left: after the last retention there is nothing but what it keeps.
- answered: nobody failed by an error that is not the library's, waited longer than allowed, or ended by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from feed_assets_tests.chaos.history import Event
from feed_assets_tests.chaos.proof import flaw, parts_of
from feed_assets_tests.file_feed import plain_reader

NEVER = float("inf")


class Violation(NamedTuple):
    """A guarantee that was broken, and how that shows."""

    guarantee: str
    how: str


@dataclass(frozen=True, slots=True)
class Final:
    """The end of a run. `objects` is storage before the last retention, `left` the keys after it.

    `watchers` has the updates that each watcher knows, by partition; `landed` the hours that count by digest, and
    `landings` the hours that each digest has.
    """

    location: str
    partitions: Sequence[str]
    keep: int
    objects: Mapping[str, bytes]
    left: Sequence[str]
    watchers: Mapping[str, Mapping[str, str]]
    landed: Mapping[str, Sequence[str]]
    landings: Mapping[str, Sequence[str]]
    misplaced: Sequence[str] = ()

    def valid(self, partition: str) -> dict[str, plain_reader.Files]:
        """The valid updates of a partition by the plain rule."""
        prefix = f"{self.location}/{partition}/"
        below = {key: data for key, data in self.objects.items() if key.startswith(prefix)}
        return plain_reader.updates(below, prefix)


@dataclass(slots=True)
class _Act:
    """An act from its `begin` to its `end` (NEVER if it was not acknowledged)."""

    kind: str
    fields: Event
    begun: float
    ended: float = NEVER
    result: Event = field(default_factory=dict)
    claimed: str = ""

    @property
    def partition(self) -> str:
        return str(self.fields["partition"])

    @property
    def name(self) -> str:
        """The update that it is about: acknowledged, named, or the last that it tried to claim."""
        return str(self.result.get("name") or self.fields.get("name") or self.claimed)


class Seen(NamedTuple):
    """An update that a reader read (None: there was none), and what its files say of themselves."""

    act: _Act
    name: str | None
    parts: Sequence[Sequence[Any] | None]

    def __str__(self) -> str:
        return f"{self.act.fields['worker']} read {self.act.partition}/{self.name}"


class Run:
    """The acts of a run, found in its histories."""

    def __init__(self, events: Sequence[Event], final: Final) -> None:
        self.events = events
        self.final = final
        self.acts = _acts(events)
        self.published = [act for act in self.acts if act.kind == "publish"]
        self.rejected = {act.fields["attempt"] for act in self.acts if act.kind == "reject"}
        self.partition_of = {act.fields["attempt"]: act.partition for act in self.acts if "attempt" in act.fields}
        self.reads = [act for act in self.acts if act.kind == "read" and act.ended < NEVER]
        self.seen = [Seen(act, act.result["name"], act.result["parts"]) for act in self.reads]
        for act in self.acts:
            if act.kind == "read history" and act.ended < NEVER:
                self.seen += [Seen(act, name, parts) for name, parts in act.result["updates"]]
        self.invalidated: dict[tuple[str, str], tuple[float, float]] = {}
        self.out_of_force: dict[str, float] = {}
        for act in self.acts:
            if act.kind == "invalidate":
                begun, ended = self.invalidated.get((act.partition, act.name), (NEVER, NEVER))
                self.invalidated[act.partition, act.name] = min(begun, act.begun), min(ended, act.ended)
                # By attempt: a writer that stood still since before its claim may use the name of a removed update.
                for attempt in act.fields["attempts"]:
                    self.out_of_force[attempt] = min(self.out_of_force.get(attempt, NEVER), act.ended)
        self.planned: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            for partition, name, _ in event["updates"] if event["event"] == "planned" else ():
                self.planned.setdefault((partition, name), []).append(event)

    def acknowledged(self) -> Iterator[_Act]:
        """The publications that were acknowledged, and that nobody even began to invalidate."""
        for act in self.published:
            if act.ended < NEVER and (act.partition, act.name) not in self.invalidated:
                yield act


def _acts(events: Sequence[Event]) -> list[_Act]:
    acts: dict[tuple[str, int], _Act] = {}
    for event in events:
        key = event["worker"], event["act"]
        if event["event"] == "begin":
            acts[key] = _Act(event["kind"], event, event["at"])
        elif event["event"] == "claiming":
            acts[key].claimed = event["name"]
        elif event["event"] == "end":
            acts[key].ended, acts[key].result = event["at"], event
    return list(acts.values())


def check(events: Sequence[Event], final: Final) -> list[Violation]:
    """Every violation."""
    run = Run(events, final)
    found: list[Violation] = []
    rules = {
        "whole": _whole,
        "staged": _staged,
        "lost": _lost,
        "retention": _retention,
        "watched": _watched,
        "landed": _landed,
        "left": _left,
        "answered": _answered,
    }
    for guarantee, rule in rules.items():
        found += [Violation(guarantee, how) for how in rule(run)]
    return found


def seen_by_readers(events: Sequence[Event], final: Final) -> list[Violation]:
    """The violations that readers saw; it needs no final storage."""
    return [each for each in check(events, final) if each.guarantee in {"whole", "staged"}]


def _whole(run: Run) -> Iterator[str]:
    for seen in run.seen:
        if how := flaw(seen.parts) or _of_another_partition(run, seen.act.partition, seen.parts):
            yield f"{seen}, which was {how}"
    for partition in run.final.partitions:
        for name, files in run.final.valid(partition).items():
            parts = parts_of(data for _, data in files)
            if how := flaw(parts) or _of_another_partition(run, partition, parts):
                yield f"{partition}/{name} is valid at the end, and {how}"


def _of_another_partition(run: Run, partition: str, parts: Sequence[Any]) -> str:
    others = {run.partition_of.get(part[0], partition) for part in parts} - {partition}
    return f"mixed: files of the partition {', '.join(others)}" if others else ""


def _staged(run: Run) -> Iterator[str]:
    for seen in run.seen:
        attempts = {part[0] for part in seen.parts if part}
        if attempts & run.rejected:
            yield f"{seen}, which was rejected"
        if any(seen.act.begun > run.out_of_force.get(attempt, NEVER) for attempt in attempts):
            yield f"{seen} after it was invalidated"
    for partition in run.final.partitions:
        for name, files in run.final.valid(partition).items():
            attempts = {part.attempt for part in parts_of(data for _, data in files) if part}
            if attempts & run.rejected:
                yield f"{partition}/{name} is valid at the end, and was rejected"
            if any(attempt in run.out_of_force and run.out_of_force[attempt] < NEVER for attempt in attempts):
                yield f"{partition}/{name} is valid at the end, and was invalidated"


def _lost(run: Run) -> Iterator[str]:
    sure = list(run.acknowledged())
    planned = {place: min(event["at"] for event in events) for place, events in run.planned.items()}
    there: dict[str, list[tuple[float, float, str]]] = {}
    for act in sure:
        there.setdefault(act.partition, []).append((act.ended, planned.get((act.partition, act.name), NEVER), act.name))
    for act in run.reads:
        known = [name for since, until, name in there.get(act.partition, ()) if since < act.begun and act.ended < until]
        newest = max(known, default="")
        if newest > (act.result["name"] or ""):
            yield f"{act.fields['worker']} read {act.partition}/{act.result['name']} after {newest} was published"
    for act in sure:
        if act.name not in run.final.valid(act.partition) and (act.partition, act.name) not in run.planned:
            yield f"{act.partition}/{act.name} was published, and is gone without having been removed"


def _retention(run: Run) -> Iterator[str]:
    begun = {(act.fields["worker"], act.fields["act"]): act.begun for act in run.acts}
    for act in run.acknowledged():
        plans = run.planned.get((act.partition, act.name), [])
        if not plans or act.name in run.final.valid(act.partition):
            continue
        newer = [
            sum(
                _may_have_been_valid(run, each, act, begun[event["worker"], event["act"]], event["at"])
                for each in run.published
            )
            for event in plans
        ]
        if max(newer) < run.final.keep:
            yield f"{act.partition}/{act.name} was removed, with {max(newer)} newer updates at most"
    for act in run.acts:
        if act.kind == "pin" and act.result.get("lost"):
            yield f"{act.partition}/{act.name} lost {act.result['lost']} files while it was pinned"


def _may_have_been_valid(run: Run, newer: _Act, than: _Act, after: float, before: float) -> bool:
    """Whether an update may have been valid in this time, and is newer."""
    invalidated = run.invalidated.get((newer.partition, newer.name), (NEVER, NEVER))[1]
    return newer.partition == than.partition and newer.name > than.name and newer.begun < before and invalidated > after


def _watched(run: Run) -> Iterator[str]:
    for watcher, known in run.final.watchers.items():
        ticks = [act.ended for act in run.acts if act.kind == "watch" and act.fields["watcher"] == watcher]
        first = min(ticks, default=NEVER)
        reported = {
            (event["partition"], event["name"])
            for event in run.events
            if event["event"] == "reported" and event["watcher"] == watcher
        }
        for partition in run.final.partitions:
            valid = run.final.valid(partition)
            if known.get(partition, "") != max(valid, default=""):
                yield f"{watcher} knows {partition}/{known.get(partition)}, and {max(valid, default=None)} is in force"
        for act in run.published:
            there = first < act.begun and act.ended < NEVER and act.name in run.final.valid(act.partition)
            if there and (act.partition, act.name) not in reported:
                yield f"{watcher} never reported {act.partition}/{act.name}"


def _landed(run: Run) -> Iterator[str]:
    acts = [act for act in run.acts if act.kind == "land" and act.ended < NEVER]
    views: list[tuple[float, Mapping[str, Sequence[str]]]] = [
        (act.begun, act.result["landings"]) for act in run.acts if act.kind == "read raw" and act.ended < NEVER
    ]
    views.append((NEVER, run.final.landed))
    for at, view in views:
        for digest, hours in view.items():
            if sorted(hours) != sorted(run.final.landings[digest]):
                yield f"landing {digest} counted in {sorted(hours)} of {sorted(run.final.landings[digest])}"
        for act in acts:
            if act.ended < at and act.fields["digest"] not in view:
                yield f"landing {act.fields['digest']} was acknowledged, and counted nowhere"
    yield from (
        f"{key} is not the raw file of a landing that counts, or has other content" for key in run.final.misplaced
    )


def _left(run: Run) -> Iterator[str]:
    final = run.final
    kept = {
        (partition, name) for partition in final.partitions for name in sorted(final.valid(partition))[-final.keep :]
    }
    update = r"(?P<partition>[^/]+)/(?P<name>\d{8}\.\d{6})"
    shapes = [
        re.compile(rf"{re.escape(final.location)}/{shape}")
        for shape in (rf"{update}/[^/]+", rf"\.feed/claims/{update}", rf"\.feed/records/{update}\..*")
    ]
    seen = set()
    for key in final.left:
        match = next((found for shape in shapes if (found := shape.fullmatch(key))), None)
        if match is None or (match["partition"], match["name"]) not in kept:
            yield f"{key} is left"
        elif key.endswith("/_SUCCESS"):
            seen.add((match["partition"], match["name"]))
    yield from (f"{partition}/{name} should have been kept" for partition, name in sorted(kept - seen))


def _answered(run: Run) -> Iterator[str]:
    for event in run.events:
        if event["event"] in {"crashed", "hung", "slow", "exited"}:
            details = {name: value for name, value in event.items() if name not in {"event", "at", "worker", "act"}}
            yield f"{event['worker']} {event['event']}: {details}"
