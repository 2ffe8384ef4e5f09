"""The sensor for what partners send: silences, their ends, changed columns, and records that cannot be used.

Here: keeping what arrived, the results of the checks of raw assets, and the news. Not here: the rules (`arrivals`), and
what a notice says (`notices.arrivals`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import dagster as dg

from feed_assets.arrivals.answers import Answer, answer
from feed_assets.arrivals.collecting import collect
from feed_assets.arrivals.columns import escaped, shown
from feed_assets.arrivals.silence import HOUR, State
from feed_assets.assets.external import raw_key
from feed_assets.checks.arrivals import checks_of
from feed_assets.feed_events.arrivals import evaluation, passes, says
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.wording import counted
from feed_assets.notices.arrivals import (
    back_notice,
    columns_notice,
    landing_again_notice,
    landing_notice,
    less_notice,
    silent_notice,
    unusable_notice,
    usable_notice,
    usual_notice,
)
from feed_assets.notices.messages import Notice
from feed_assets.receiving.status import recorded_status
from feed_assets.sensors.telling import News, channels_of, tell
from feed_assets.sensors.ticks import load_cursor
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store

NAME: Final = "arrivals"
LOOK_SECONDS: Final = 300
PAUSE: Final = timedelta(hours=1)
"""The least time between two notices on the columns of a source."""
_AT: Final = "%Y-%m-%dT%H"


def arrivals(sources: Sequence[Source], *, channels: frozenset[str], interval_seconds: int) -> dg.SensorDefinition:
    """Watches when something of each source lands, and in which columns.

    `channels` are the resources `mail` and `notifier` of the code location, as far as it has them.
    """

    @dg.sensor(
        name=NAME,
        minimum_interval_seconds=max(interval_seconds, LOOK_SECONDS),
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"blackboard", "state", "clock", *channels},
        description=(
            "Tells people once when a source is silent, or sends far less than usual, when it is back, when its "
            "columns change, and when many of its records cannot be used. Reports the checks of raw assets."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        resources: Any = context.resources
        board, store, now = resources.blackboard.blackboard, resources.state.store, resources.clock.now()
        base, reported = board.uri(""), load_cursor(context.cursor)
        collect(store, board, sources, now=now)
        found = [
            answer(store, base, source, now=now, known_until=polled_until(context.instance, source))
            for source in sources
        ]
        news = [*news_of(found), *_of_pushed(store, sources, now)]
        said = tell(store, base, news, channels_of(resources, channels, news), now=now)
        for sentence in said:
            context.log.warning(sentence)
        results = dict(_results(found))
        changed = [make() for name, (state, make) in results.items() if reported.get(name) != state]
        return dg.SensorResult(
            asset_events=changed,
            skip_reason=" ".join(said[:4]) or f"Looked at {counted(len(found), 'source')}.",
            cursor=json.dumps({name: state for name, (state, _) in results.items()}),
        )

    return sensor


def news_of(found: Sequence[Answer]) -> list[News]:
    """The news on all sources; if all are silent at once, landing is suspected, and no partner."""
    expected = [each for each in found if each.standing is not None and each.standing.last is not None]
    silent = [each for each in expected if each.is_silent]
    newest = max((max(each.hours) for each in found if each.hours), default=None)
    nothing_lands = len(silent) > 1 and len(silent) == len([each for each in found if each.hours])
    news = [_landing([each.source.key for each in silent or expected], newest, nothing_lands=nothing_lands)]
    for each in expected:
        if not nothing_lands:
            news += _silence(each)
    return [*news, *(each for of_source in found for each in _columns(of_source))]


def _landing(sources: Sequence[str], newest: datetime | None, *, nothing_lands: bool) -> News:
    fact = "landing"
    if nothing_lands and newest is not None:
        notice = landing_notice(sources, f"{newest + HOUR:%Y-%m-%d %H:%M} UTC")
        return News(fact, {fact: f"since {newest:{_AT}}"}, ("landing",), lambda _: notice)
    again = landing_again_notice(sources)
    facts = {fact: "again"} if newest is not None else {}
    return News(fact, facts, ("landing",), lambda _: again, follows=lambda before: _is_later(newest, before, "since "))


def _silence(found: Answer) -> Iterator[News]:
    source, standing = found.source, found.standing
    if standing is None or standing.last is None:
        return
    silence, volume = f"silence {source.key}", f"volume {source.key}"
    to = source.recipients
    assets = (raw_key(source).to_user_string(),)

    def one(
        fact: str,
        state: str,
        notice: Callable[[Mapping[str, str | None]], Notice],
        *,
        follows: Callable[[str], bool] | None = None,
    ) -> News:
        return News(fact, {fact: state}, assets, notice, follows=follows, recipients=source.recipients)

    if found.is_silent:
        yield one(
            silence,
            f"{standing.last:{_AT}}",
            lambda _: silent_notice(source.key, standing.sentence, to),
        )
        return
    # Without a landing it is not back: perhaps nobody watched for a while.
    yield one(
        silence,
        "back",
        lambda before: _back(found, before[silence]),
        follows=lambda before: _is_later(standing.last, before),
    )
    if standing.state is State.LESS:
        yield one(volume, "less", lambda _: less_notice(source.key, standing.sentence, to))
    elif standing.state is State.USUAL:
        yield one(volume, "usual", lambda _: usual_notice(source.key, standing.sentence, to), follows=bool)


def _is_later(last: datetime | None, before: str, prefix: str = "") -> bool:
    """Whether something has landed after the hour of the last landing that a state names."""
    known = before.removeprefix(prefix)
    return last is not None and known[:1].isdigit() and known < f"{last:{_AT}}"


def _back(found: Answer, before: str | None) -> Notice:
    """The notice after a silence; `before` is the hour of the last landing before it."""
    last = datetime.strptime(before or "", _AT).replace(tzinfo=UTC)
    since = [hour for hour in found.hours if hour > last]
    landings, records = (sum(getattr(found.hours[hour], name) for hour in since) for name in ("landings", "records"))
    return back_notice(
        found.source.key, f"{last + HOUR:%Y-%m-%d %H:%M} UTC", landings, records, found.source.recipients
    )


def _columns(found: Answer) -> Iterator[News]:
    source, topic = found.source, f"columns {found.source.key} "
    new = {f"{topic}new {_named(name)}": name for name in found.changes.new}
    gone = {f"{topic}gone {_named(name)}": name for name in found.changes.gone}

    def notice(facts: Mapping[str, str | None]) -> Notice:
        names = [new[fact] for fact in new if fact in facts]
        days = {day: {shown(name): seen["unknown"].get(name, 0) for name in names} for day, seen in found.days.items()}
        missing = [shown(gone[fact]) for fact in gone if fact in facts]
        return columns_notice(source.key, list(map(shown, names)), missing, days, source.recipients)

    if facts := dict.fromkeys(new, "") | {fact: str(found.changes.gone[name]) for fact, name in gone.items()}:
        asset = raw_key(source).to_user_string()
        yield News(topic, facts, (asset,), notice, pause=PAUSE, recipients=source.recipients)


def _of_pushed(store: Store, sources: Sequence[Source], now: datetime) -> Iterator[News]:
    """Whether many of the records that a partner pushed cannot be used: refused at once, or as they landed."""
    by_key = {source.key: source for source in sources}
    for each in recorded_status(store, by_key.keys(), now=now):
        source, fact = by_key[each.source], f"unusable {each.source} {_named(each.partner)}"
        sentence = each.sentence()
        assets, to = (raw_key(source).to_user_string(),), source.recipients
        if each.has_many_unusable:
            notice = unusable_notice(source.key, sentence, to)
            yield News(fact, {fact: "many"}, assets, lambda _, notice=notice: notice, recipients=to)  # type: ignore[misc] # bound now
        elif each.sent:
            notice = usable_notice(source.key, sentence, to)
            yield News(fact, {fact: "few"}, assets, lambda _, notice=notice: notice, follows=bool, recipients=to)  # type: ignore[misc] # bound now


def _named(name: str) -> str:
    """A name of a column in a fact: short, and without characters that a database refuses."""
    return f"{shown(name)} {short_digest(escaped(name))}"


def _results(found: Sequence[Answer]) -> Iterator[tuple[str, tuple[str, Callable[[], dg.AssetCheckEvaluation]]]]:
    """The checks, each with what decides whether it is reported again: at least once a day."""
    for each in found:
        key = raw_key(each.source)
        for check in checks_of(each.source):
            text = says(each, check) if passes(each, check) or not each.is_silent else ""
            state = f"{each.now.date()} {passes(each, check)} {short_digest(_without_numbers(text))}"
            yield (
                f"{each.source.key} {check}",
                (state, lambda each=each, key=key, check=check: evaluation(each, key, check)),  # type: ignore[misc] # bound now
            )


def _without_numbers(text: str) -> str:
    """A sentence without the numbers that change at each look."""
    return "".join(letter for letter in text if not letter.isdigit())


def polled_until(instance: dg.DagsterInstance, source: Source) -> datetime | None:
    """When the last successful poll of a source began; None if Dagster does not poll it: something may always land."""
    if source.poll is None:
        return None
    wanted = dg.RunsFilter(job_name=f"poll_{source.key.replace('/', '_')}", statuses=[dg.DagsterRunStatus.SUCCESS])
    records = instance.get_run_records(wanted, limit=1)
    return datetime.fromtimestamp(records[0].start_time, UTC) if records and records[0].start_time else None
