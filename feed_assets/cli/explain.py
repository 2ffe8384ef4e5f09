"""`feed-assets explain`: why a day is as it is.

Here: the command. Not here: the reasons (`feed_assets.operations.explanation`, `feed_assets.operations.failed_runs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import click

from feed_assets.cli.clock import DayParameter, OptionalDay
from feed_assets.cli.feed_place import with_what_is_near
from feed_assets.cli.installation import Installation, find_dagster_home, load_installation
from feed_assets.cli.known_datasets import known
from feed_assets.cli.output import json_option, print_blocks, print_json, print_table, print_text, say
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.notices.tables import Report
    from feed_assets.operations.explanation import AssetStory, Unprocessed
    from feed_assets.operations.failed_runs import FailedRun
    from feed_assets.project.assembly import Project
    from feed_assets.resources.settings import Settings
    from feed_assets.run_history.live import LiveStep
    from feed_assets.state.store import Store

ONE_BY_ONE = 5
"""As many days, and commands, are shown one by one."""
STRANGE = 100
"""More days than so many outside the lookback are rarely late data."""


@click.command()
@click.argument("day", cls=OptionalDay, metavar="[DATE]", required=False, type=DayParameter())
@json_option
def explain(day: date | None, *, as_json: bool) -> None:
    """For each asset on DATE, show the update in force, why it was computed, growth, failed checks and lineage.

    Of an asset with a trigger it shows the gate's answer, too; `feed-assets deps explain` has all of its stages.

    Without DATE, show every day with unprocessed raw data, and what happens next.

    Of an asset with a deadline it shows what is expected of the next days' runs.

    Of a step that runs, failed or was killed since the update in force, it shows how far it is or was.

    Reports on late data of DATE come last. All of it comes from storage. If Dagster's database exists, failed runs are
    shown, too. If it or its dagster.yaml cannot be used, the command shows the rest first, and exits with code 1.
    """
    from feed_assets.notices.keeping import kept_reports  # noqa: PLC0415 - loads pydantic
    from feed_assets.operations.day_runs import InstanceConfigError  # noqa: PLC0415 - loads Dagster
    from feed_assets.operations.explanation import explain as stories_of  # noqa: PLC0415 - as above
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    installation = load_installation()
    settings = installation.settings
    if day is None:
        _show_unprocessed(installation, as_json=as_json)
        return
    board, feeds = installation.blackboard, installation.feeds
    now, store = settings.clock.now(), Store(settings.state)
    stories = stories_of(board, feeds, installation.sources, day, now=now, store=store, gate=_gate(installation))
    reports = kept_reports(board, str(day), now=settings.clock.now())
    deadlines = _deadlines(installation, store)
    steps = {(story.location, story.day): _steps(story, store, board.uri("")) for story in stories}
    unknown: InstanceConfigError | None = None
    failed: list[FailedRun] = []
    try:
        failed = _failed_runs(sorted({str(day), *(story.day for story in stories)}), settings.base)
    except InstanceConfigError as error:
        unknown = error
    if as_json:
        print_json(
            [
                asdict(story)
                | {"failed_runs": None if unknown else _of(story, failed)}
                | {"deadline": deadlines.get(story.asset)}
                | {"steps": _plain(steps[story.location, story.day])}
                | {"late_reports": [asdict(each) for each in reports if story.location in each.request["computed"]]}
                for story in stories
            ]
        )
    else:
        _show_day(installation.project, stories, failed, deadlines, steps)
        _show_reports(reports)
    if unknown is not None:
        raise unknown


def _gate(installation: Installation) -> Callable[[str, str], str]:
    """The gate's sentence on a partition of a feed with a trigger; "" for other feeds."""
    from feed_assets.operations.gate_answers import explain_flow  # noqa: PLC0415 - loads Dagster

    flows, states = known(installation)
    board, sources, now = installation.blackboard, installation.sources, installation.settings.clock.now()

    def sentence(feed: str, partition: str) -> str:
        if not flows.triggered(feed) or not flows.feeds.can_have(feed, partition):
            return ""
        return explain_flow(board, flows, states, sources, feed, partition, now=now).sentence

    return sentence


def _deadlines(installation: Installation, store: Store) -> dict[str, str]:
    """What the history of runs says of each asset with a deadline, by the asset's name."""
    from feed_assets.run_history.executions import ASSET  # noqa: PLC0415 - as below
    from feed_assets.run_history.health import health_of  # noqa: PLC0415 - loads SQLAlchemy
    from feed_assets.run_history.tables import executions_of  # noqa: PLC0415 - as above
    from feed_assets.sensors.ended_runs import deadlines  # noqa: PLC0415 - loads Dagster

    base, today = installation.blackboard.uri(""), datetime.now(UTC).date()
    found = (
        health_of(series, executions_of(store, base, series=series).get(series, []), deadline, today)
        for series, deadline in deadlines(installation.feeds).items()
    )
    return {each.series.removeprefix(ASSET): each.of_deadline for each in found}


def _steps(story: AssetStory, store: Store, base: str) -> list[LiveStep]:
    """The steps that run, and those without success, that have begun since the update in force of a story."""
    from feed_assets.file_feed.names import begun  # noqa: PLC0415 - loaded when used
    from feed_assets.run_history.tables import live_steps  # noqa: PLC0415 - loads SQLAlchemy

    since = begun(story.latest) if story.latest else None
    found = (each for each in live_steps(store, base) if each.has(story.location, story.day))
    return [each for each in found if since is None or each.started >= since]


def _plain(steps: Sequence[LiveStep]) -> object:
    import msgspec  # noqa: PLC0415 - loaded when used

    from feed_assets.run_history.answers import step_says  # noqa: PLC0415 - as above

    return msgspec.to_builtins([step_says(each, datetime.now(UTC)) for each in steps])


def _show_day(
    project: Project,
    stories: Sequence[AssetStory],
    failed: Sequence[FailedRun],
    deadlines: Mapping[str, str],
    steps: Mapping[tuple[str, str], Sequence[LiveStep]],
) -> None:
    _say_where(project.settings)
    for story in stories:
        _show(story, deadlines.get(story.asset, ""), steps[story.location, story.day])
    if project.note:
        click.echo()
        print_text(project.note)
    shown = {f"{story.asset} {check}" for story in stories for each in story.updates for check in each.failed_checks}
    for run in failed:
        when = f" at {run.ended:%Y-%m-%d %H:%M:%S}" if run.ended else ""
        reasons = [reason for reason in run.reasons if reason not in shown]
        click.echo()
        print_text(f"Run {run.run_id} of {', '.join(run.assets)} failed{when}{':' if reasons else ', as shown above.'}")
        for reason in reasons:
            print_text(f"  {reason}", indent="    ")


def _show_reports(reports: Sequence[Report]) -> None:
    from feed_assets.notices.messages import ENDED, notice_of  # noqa: PLC0415 - loads SQLAlchemy

    for report in reports:
        notice = notice_of(report, ENDED)
        click.echo()
        print_text(f"{report.at:%Y-%m-%d %H:%M:%S} {notice.subject}")
        print_blocks(notice.body)


def _show_unprocessed(installation: Installation, *, as_json: bool) -> None:
    from feed_assets.notices.outside_lookback import before_first  # noqa: PLC0415 - loads SQLAlchemy
    from feed_assets.operations.explanation import unprocessed  # noqa: PLC0415 - loads pydantic
    from feed_assets.sources.raw import keys_with_raw_data  # noqa: PLC0415 - as above
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    settings = installation.settings
    now = settings.clock.now()
    store = Store(settings.state)
    days = unprocessed(installation.blackboard, installation.feeds, installation.sources, now=now, store=store)
    known = {source.key for source in installation.sources}
    unread = [key for key in keys_with_raw_data(installation.blackboard) if key not in known]
    for key in unread:
        say(f"No day reads raw/{key}: the project has no source of this name. Was it renamed or removed?")
    if as_json:
        print_json([asdict(each) for each in days])
        return
    _say_where(settings)
    for line in _standings(days):
        print_text(line, indent="    ")
    for command, dates in _commands(days).items():
        print_text(f"Of these, `{command}` makes {counted(dates, 'day')} outside the lookback.", indent="    ")
    if early := sorted(each.day for each in days if each.before_first):
        for line in before_first(early[0], early[-1]):
            print_text(line, indent="    ")
    if not days and not unread:
        say(with_what_is_near("There is no unprocessed raw data.", installation.blackboard))


def _standings(days: Sequence[Unprocessed]) -> Iterator[str]:
    """A line for each day; one line for many days of a source that no sensor asks for, for the same reason."""
    alike: dict[tuple[str, str], list[Unprocessed]] = {}
    for each in days:
        alike.setdefault((each.source, each.never), []).append(each)
    many = {of: found for of, found in alike.items() if of[1] and len(found) > ONE_BY_ONE}
    for (source, never), found in many.items():
        files = counted(sum(each.files for each in found), "file")
        yield f"{source} {found[0].day} to {found[-1].day}: {len(found):,} days with {files}; {never}"
        if len(found) > STRANGE:
            yield (
                f"Are the times of {source} right? So many days are often a wrong unit of time: "
                f"`feed-assets sources try {source} FILE` shows them."
            )
    yield from (each.standing for each in days if (each.source, each.never) not in many)


def _commands(days: Sequence[Unprocessed]) -> dict[str, int]:
    """The commands that make days which no sensor asks for, each with the number of its days; one for many commands."""
    dates = {each.day: each.backfill for each in days if each.backfill}
    found = Counter(dates.values())
    if len(found) > ONE_BY_ONE:
        return {f"feed-assets backfill --from {min(dates)} --to {max(dates)}": len(dates)}
    return dict(found)


def _say_where(settings: Settings) -> None:
    fixed = f", as of {settings.as_of:%Y-%m-%d %H:%M:%S}" if settings.as_of else ""
    say(f"Looked below {settings.base}{fixed}.")


def _failed_runs(partitions: Sequence[str], base: str) -> list[FailedRun]:
    home = find_dagster_home(base)
    if home is None:
        return []
    from feed_assets.operations.day_runs import instance_at  # noqa: PLC0415 - loads Dagster
    from feed_assets.operations.failed_runs import failed_runs  # noqa: PLC0415 - as above

    with instance_at(home, {}) as instance:
        return [run for partition in partitions for run in failed_runs(instance, partition)]


def _of(story: AssetStory, failed: Sequence[FailedRun]) -> list[dict[str, object]]:
    return [asdict(run) for run in failed if story.asset in run.assets]


def _show(story: AssetStory, deadline: str, steps: Sequence[LiveStep]) -> None:
    click.echo()
    print_text(f"{story.asset} {story.day}  ({story.location})")
    print_text(f"  in force: {story.latest or 'nothing valid'}", indent="    ")
    print_text(f"  standing: {story.standing}", indent="    ")
    if deadline:
        print_text(f"  deadline: {deadline}", indent="    ")
    for step in steps:
        print_text(f"  run {step.run}: {step.sentence(datetime.now(UTC))}", indent="    ")
    if not story.updates:
        print_text("  no updates yet")
        return
    counts = max((list(each.rows) for each in story.updates), key=len)
    print_table(
        ["update", "state", "made because", *counts],
        [
            (
                f"{each.name}{' *' * each.in_force}",
                each.state,
                each.made_because,
                *(each.rows.get(name) for name in counts),
            )
            for each in story.updates
        ],
        empty="",
    )
    for update in story.updates:
        for check in update.failed_checks:
            print_text(f"  {update.name} failed {check}", indent="    ")
    for update in story.updates:
        if update.in_force:
            for each in update.inputs:
                print_text(f"  {update.name} read {each}", indent="    ")
