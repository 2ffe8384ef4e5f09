"""`feed-assets deliver ...`: updates of feeds to streams, and from there into stores.

Here: the commands. Not here: delivering, consuming and the audit (`feed_assets.delivery`).
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import click

from feed_assets.cli.clock import now
from feed_assets.cli.installation import Installation, load_installation, ready_to_compute
from feed_assets.cli.listening import listen
from feed_assets.cli.output import (
    complain,
    json_option,
    print_fields,
    print_json,
    print_table,
    print_text,
    progress,
    say,
)
from feed_assets.errors import FAILED, FeedAssetsError
from feed_assets.file_feed.wording import counted
from feed_assets.processes.signals import stopped_by_signals
from feed_assets.project.loading import look_here_first

if TYPE_CHECKING:
    from feed_assets.delivery.audit import Account
    from feed_assets.delivery.delivering import Deliverer
    from feed_assets.delivery.destination import Destination

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _name(command: _Command) -> _Command:
    return click.argument("name", metavar="DESTINATION")(command)


def _partition(command: _Command) -> _Command:
    return click.option("--partition", "-p", metavar="PARTITION", help="Only this partition.")(command)


@click.group()
def deliver() -> None:
    """Deliver updates of feeds to a stream of Kinesis, and from there into a key-value store; not a row is lost."""


@deliver.command()
@_name
@_partition
@json_option
def run(name: str, partition: str | None, *, as_json: bool) -> None:
    """Deliver each partition that is due, the oldest first.

    That is one whose update in force was not delivered, or whose delivery has not ended: it is resumed. If a partition
    fails, the others go on, and the exit code is 1.
    """
    from feed_assets.delivery.errors import StreamBusyError  # noqa: PLC0415 - only this command needs it
    from feed_assets.file_feed.errors import NoValidUpdateError  # noqa: PLC0415 - as above

    deliverer = _deliverer(name)
    deliverer.require_same()  # also if nothing is due
    results = []
    due, otherwise = _due(deliverer, partition)
    for each in due:
        try:
            results.append(_delivered(deliverer, each, prints=not as_json))
        except FeedAssetsError as error:
            if isinstance(error, StreamBusyError | NoValidUpdateError):
                raise  # so it is for all others, or there is only this one
            complain(f"Error: {_title(deliverer, each)}: {error}")
            results.append({"partition": each, "state": "failed", "reason": str(error)})
    if as_json:
        print_json(results)
    elif not results:
        print_text(otherwise)
    if any(each["state"] == "failed" for each in results):
        raise SystemExit(FAILED)


@deliver.command("ls")
@click.argument("name", metavar="[DESTINATION]", required=False)
@json_option
def list_command(name: str | None, *, as_json: bool) -> None:
    """List the destinations, or the partitions of one.

    Shows what is in force, what was delivered, and what is due.
    """
    installation = load_installation()
    if name is None:
        rows: list[dict[str, Any]] = [
            {"destination": each.name, "feed": each.feed, "stream": each.stream, "store": each.store}
            for each in _destinations(installation)
        ]
        directory = installation.settings.deliveries_directory
        return print_json(rows) if as_json else _table(rows, f"There is no destination: write {directory}/NAME.yaml.")
    deliverer = _deliverer(name, installation)
    from feed_assets.delivery.standings import standings  # noqa: PLC0415 - loads pyarrow

    rows = [
        {
            "partition": each.partition,
            "state": each.state,
            "in_force": each.in_force,
            "edition": each.begun.edition if each.begun else None,
            "rows": each.begun.rows if each.begun else None,
        }
        for each in standings(deliverer, now=now())
    ]
    return print_json(rows) if as_json else _table(rows, _no_update(deliverer))


@deliver.command()
@_name
@_partition
@json_option
def audit(name: str, partition: str | None, *, as_json: bool) -> None:
    """Count rows at every hop, and name the first that lacks some.

    Looks at the last delivery of each partition, and at earlier ones that are not settled. The exit code is 1 if a row
    is missing at a hop that is over, or nothing was delivered of the partition that is asked for.
    """
    deliverer = _deliverer(name)
    from feed_assets.delivery.audit import account, summarize, with_shards  # noqa: PLC0415 - loads pyarrow

    ledger = deliverer.ledger
    settled = ledger.summarized()
    last = [
        each
        for _, editions in sorted(ledger.editions(partition).items(), key=lambda each: each[0] or "")
        for each in editions
        if each is editions[-1] or (each.has_ended and (each.partition, each.number) not in settled)
    ]
    found = [account(ledger, deliverer.to, each, now=now()) for each in last]
    if any(loss.hop == "received" for each in found for loss in each.losses):
        with deliverer.open_stream() as stream:
            shards = stream.all_shards()
        found = [with_shards(ledger, edition, each, shards) for edition, each in zip(last, found, strict=True)]
    for edition, each in zip(last, found, strict=True):
        summarize(ledger, edition, each)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        _table(list(map(_audited, found)), _nothing(name, partition))
        for each in found:
            _print_losses(each)
    if any(each.is_lost for each in found) or (partition is not None and not found):
        raise SystemExit(FAILED)


@deliver.command()
@_name
@_partition
@json_option
def show(name: str, partition: str | None, *, as_json: bool) -> None:
    """Show all editions: what began and ended when, with how many rows."""
    ledger = _deliverer(name).ledger
    rows = []
    for each in itertools.chain.from_iterable(ledger.editions(partition).values()):
        begun, ended = ledger.began(each), ledger.ended(each) if each.has_ended else None
        rows.append(
            {
                "edition": each.number,
                "partition": each.partition,
                "update": begun.update,
                "mode": begun.mode,
                "puts": begun.puts,
                "deletes": begun.deletes,
                "state": ended.outcome if ended else "open",
                "began": begun.at,
                "ended": ended.at if ended else None,
                "reason": ended.reason if ended else "",
            }
        )
    return print_json(rows) if as_json else _table(rows, _nothing(name, partition))


@deliver.command()
@_name
@click.option("--partition", "-p", metavar="PARTITION", help="The partition; leave it out if the feed has none.")
@click.option("--without-base", is_flag=True, help="Also if the update before is gone; vanished keys stay then.")
@json_option
def replay(name: str, partition: str | None, *, without_base: bool, as_json: bool) -> None:
    """Send all rows of the update in force again, as a new edition."""
    result = _delivered(_deliverer(name), partition, prints=not as_json, again=True, without_base=without_base)
    if as_json:
        print_json(result)


@deliver.command()
@_name
@click.option("--partition", "-p", metavar="PARTITION", help="The partition; leave it out if the feed has none.")
@click.option("--reason", default="by hand", show_default=True, help="Why; `deliver show` says it.")
def abandon(name: str, partition: str | None, reason: str) -> None:
    """Give up the open edition of a partition.

    Its senders end, and the next delivery takes its place.
    """
    deliverer = _deliverer(name)
    editions = [each for each in deliverer.ledger.of(partition) if not each.has_ended]
    if not editions:
        raise click.ClickException(f"No delivery of {_title(deliverer, partition)} is open.")
    for each in editions:
        ended = deliverer.abandon(deliverer.ledger.began(each), reason)
        print_text(f"{_title(deliverer, partition)}: edition {each.number} is {ended.outcome}.")


@deliver.command()
@_name
def moved(name: str) -> None:
    """Say that stream and store have only moved to other addresses.

    For a server with another name, or a copy of its data. Each partition sends all rows once at its next update.
    """
    changed = _deliverer(name).move()
    print_text(f"{name}: {' and '.join(changed)} moved." if changed else f"{name}: nothing has moved.")


@deliver.command()
@_name
@click.option("--until-idle", is_flag=True, help="End when nothing is left to read, and at any error.")
@click.option("--audit-only", is_flag=True, help="Only prove that rows arrive, for `settled_by: watcher`.")
@click.option("--accept-loss", is_flag=True, help="Go on if the stream has dropped records that nobody has read.")
@click.option("--from-oldest", is_flag=True, help="Forget how far shards were read, and begin at the oldest record.")
@click.option("--metrics-port", type=click.IntRange(1, 65535), help="Port of /metrics, /health and /ready.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address of the same.")
@json_option
def consume(
    name: str,
    metrics_port: int | None,
    metrics_host: str,
    *,
    until_idle: bool,
    audit_only: bool,
    accept_loss: bool,
    from_oldest: bool,
    as_json: bool,
) -> None:
    """Bring the records of a stream into its store until Ctrl-C.

    SIGTERM ends it, too. Start as many as there are cores, at most one for each shard: they share the shards. Each may
    be killed at any time; what it did not write down is read again. A store that does not answer is waited for.
    """
    installation = load_installation()
    deliverer = _deliverer(name, installation)
    from feed_assets.delivery.consuming.service import consume_and_serve  # noqa: PLC0415 - loads the server
    from feed_assets.delivery.consuming.starting import consumer_of  # noqa: PLC0415 - loads pyarrow
    from feed_assets.delivery.tables import forget  # noqa: PLC0415 - loads the database
    from feed_assets.state.store import Store  # noqa: PLC0415 - as above

    to, state = deliverer.to, Store(installation.settings.state)
    if audit_only and to.who_settles == "consumer":
        raise click.UsageError(
            f"{name} is settled by its consumer, so a watcher would take records from it: say `settled_by: watcher` in "
            "its file, or leave --audit-only out."
        )
    if until_idle and metrics_port:
        raise click.UsageError("--metrics-port is for a consumer that goes on: leave it or --until-idle out.")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    look_here_first(to.dispatch)
    listening = listen("The consumer", metrics_host, metrics_port) if metrics_port else None
    with stopped_by_signals() as stop, consumer_of(deliverer, state, accept_loss=accept_loss) as consumer:
        if from_oldest:
            forget(state, name)
        into = to.store if to.who_settles == "consumer" else "nothing: only what arrives is counted"
        say(f"Consuming {to.stream} into {into}. Ctrl-C ends it.")
        if listening is not None:
            settled = consume_and_serve(consumer, listening)
        else:
            settled = consumer.run(stop, until_idle=until_idle)
    if as_json:
        print_json({"settled": settled})
    else:
        print_text(f"{counted(settled, 'record')} settled.")


@deliver.command("shards")
@_name
@json_option
def shards_command(name: str, *, as_json: bool) -> None:
    """Show how far the consumer has come in each shard of the stream.

    The exit code is 1 if one is further behind than half of the time for which the stream keeps records.
    """
    from feed_assets.delivery.consuming.lag import lags  # noqa: PLC0415 - loads the database
    from feed_assets.delivery.ledger import utc_now  # noqa: PLC0415 - loads pyarrow
    from feed_assets.state.store import Store  # noqa: PLC0415 - as above

    installation = load_installation()
    deliverer = _deliverer(name, installation)
    deliverer.require_same()
    with deliverer.open_stream() as stream:
        found = lags(stream, Store(installation.settings.state), name, now=utc_now())
    rows: list[dict[str, Any]] = [
        {
            "shard": each.shard,
            "state": each.state,
            "settled_until": each.until,
            "lag_seconds": round(each.lag.total_seconds()) if each.lag is not None else None,
            "late": each.is_late,
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
    else:
        _table([row | {"late": "late" if row["late"] else ""} for row in rows], f"The stream of {name} has no shards.")
    if late := [each.shard for each in found if each.is_late]:
        complain(f"Error: {', '.join(late)}: the stream drops records before they are read. Start more consumers.")
        raise SystemExit(FAILED)


@deliver.command(context_settings={"ignore_unknown_options": True})  # a key such as -5 is none
@_name
@click.argument("key", nargs=-1, required=True)
@_partition
@click.option("--target", default="", help="For a destination with several targets: which of them is asked.")
@json_option
def lookup(name: str, key: tuple[str, ...], partition: str | None, target: str, *, as_json: bool) -> None:
    """Look up a KEY in the store: a value for each of its columns.

    It is written as records have it: a decimal as 1.50, a time as 2024-01-01T00:00:00.000000Z. The exit code is 1 if
    there is none.
    """
    deliverer = _deliverer(name)
    deliverer.require_same()
    from feed_assets.delivery.lookups import Lookups  # noqa: PLC0415 - loads the store

    with Lookups.of(deliverer.to, deliverer.folder, target) as lookups:
        found = lookups.get_texts(key, partition)
    if found is None:
        if as_json:
            print_json(None)
        complain(f"{deliverer.to.store} has no value for {' '.join(key)} of {name}.")
        raise SystemExit(FAILED)
    if as_json:
        print_json(found._asdict())
    else:
        row = [(column, _as_in_record(value)) for column, value in found.row.items()]
        print_fields([*row, ("(version)", " ".join(map(str, found.version)).lstrip())])


def _destinations(installation: Installation) -> Sequence[Destination]:
    from feed_assets.delivery.destination import load_destinations  # noqa: PLC0415 - only if it is used

    return load_destinations(installation.settings.deliveries_directory)


def _deliverer(name: str, installation: Installation | None = None) -> Deliverer:
    """Delivers to the destination of this name. Raises UsageError, DestinationError.

    Commands import what needs the extra `delivery` after this, which says so if it is missing.
    """
    try:
        from feed_assets.delivery.delivering import Deliverer  # noqa: PLC0415 - loads pyarrow
    except ModuleNotFoundError as error:
        message = f"Deliveries need the package {error.name}: pip install 'feed_assets[delivery]'."
        raise click.ClickException(message) from None
    from feed_assets.file_feed.feed import Feed  # noqa: PLC0415 - only if it is used
    from feed_assets.spark_delivery.backend import SparkBackend  # noqa: PLC0415 - as above
    from feed_assets.state.store import Store  # noqa: PLC0415 - loads the database

    installation = installation or load_installation()
    known = {each.name: each for each in _destinations(installation)}
    if name not in known:
        there = f"there are {', '.join(known)}" if known else f"put {name}.yaml there"
        raise click.UsageError(f"{name} is no destination of {installation.settings.deliveries_directory}; {there}.")
    settings = installation.settings
    to = known[name]

    @cache
    def spark() -> Any:
        say("Starting Spark, as the delivery is large.")
        ready_to_compute(settings)
        return settings.spark.spark_session

    feed, state = Feed(installation.blackboard, to.feed), Store(settings.state)
    return Deliverer(feed, to, settings.local_state, now=now, state=state, said=say, large=SparkBackend(spark))


def _due(deliverer: Deliverer, partition: str | None) -> tuple[Sequence[str | None], str]:
    """The partitions that are to be delivered, and a sentence for the case that there is none."""
    from feed_assets.delivery.standings import standings  # noqa: PLC0415 - loads pyarrow

    if partition is not None:
        return [partition], ""
    name = deliverer.to.name
    if not (found := standings(deliverer, now=now())):
        return [], f"Nothing to deliver to {name}. {_no_update(deliverer)}"
    return [each.partition for each in found if each.is_due], f"Nothing to deliver to {name}."


def _no_update(deliverer: Deliverer) -> str:
    return f"Its feed {deliverer.feed.uri} has no valid update yet."


def _delivered(
    deliverer: Deliverer,
    partition: str | None,
    *,
    prints: bool,
    again: bool = False,
    without_base: bool = False,
) -> dict[str, Any]:
    """Deliver a partition with a bar, and print what came of it."""
    from dataclasses import replace  # noqa: PLC0415 - beside its only use

    from feed_assets.file_feed.errors import NoValidUpdateError  # noqa: PLC0415 - only if it is used

    title = _title(deliverer, partition)
    with progress(title, 100) as bar:
        done = 0

        def told(rows: int, of: int) -> None:
            nonlocal done
            percent = 100 * rows // max(1, of)
            bar(steps=percent - done)
            done = percent

        found = replace(deliverer, told=told).deliver(partition, again=again, without_base=without_base)
    if found is None:
        if not deliverer.ledger.of(partition):
            raise NoValidUpdateError(
                f"{deliverer.feed.title(partition)} has no valid update, and none was delivered. `feed-assets deliver "
                f"ls {deliverer.to.name}` lists the partitions."
            )
        if prints:
            print_text(f"{title}: nothing to deliver: the update in force was delivered before.")
        return {"partition": partition, "state": "unchanged"}
    begun, ended = found.begun, found.ended
    if prints:
        what = f"{counted(begun.puts, 'put')}, {counted(begun.deletes, 'delete')} of {begun.update or 'nothing valid'}"
        repeats = f", {counted(ended.repeats, 'repeat')}" if ended.repeats else ""
        print_text(f"{title}: edition {begun.edition}: {what}; {ended.acked:,} acknowledged{repeats}.")
    return {
        "partition": partition,
        "state": "delivered",
        "edition": begun.edition,
        "update": begun.update,
        "mode": begun.mode,
        "puts": begun.puts,
        "deletes": begun.deletes,
        "acked": ended.acked,
        "repeats": ended.repeats,
        "ambiguous": ended.ambiguous,
        "throttled": ended.throttled,
        "seconds": ended.seconds,
    }


def _title(deliverer: Deliverer, partition: str | None) -> str:
    return f"{deliverer.to.name} {partition or ''}".rstrip()


def _nothing(name: str, partition: str | None) -> str:
    return f"Nothing was delivered to {name}{f' of {partition}' if partition else ''} yet."


def _audited(found: Account) -> dict[str, Any]:
    return {
        "partition": found.partition,
        "edition": found.edition,
        "state": found.state,
        **{name: found.rows.get(name) for name in ("staged", "acked", "received", "settled")},
        "superseded": found.superseded,
        "repeats": sum(found.repeats.values()),
    }


def _print_losses(found: Account) -> None:
    for loss in found.losses:
        what = f"{counted(loss.rows, 'row')} not {loss.hop}{'' if found.is_lost else ' yet'}"
        seen = f", last seen by {', '.join(loss.holders)}" if loss.holders else ""
        where = f", shards {', '.join(loss.shards)}{seen}" if loss.shards else seen
        when = f", {loss.minutes[0]} to {loss.minutes[-1]} UTC" if loss.minutes else ""
        print_text(
            f"{found.partition or ''} edition {found.edition}: {what}: block {loss.block}, rows {loss.first} to "
            f"{loss.last} of {loss.file}{where}{when}.".lstrip()
        )
    if found.unexplained:
        print_text(
            f"{found.partition or ''} edition {found.edition}: no ambiguous answer explains "
            f"{counted(found.unexplained, 'repeat')}. A sender that was killed may have sent them; else two programs "
            "send this delivery."
        )


def _table(rows: Sequence[dict[str, Any]], otherwise: str) -> None:
    """A table, in which editions are names and no amounts."""
    texts = [{**each, **({"edition": str(each["edition"] or "")} if "edition" in each else {})} for each in rows]
    header = [name.replace("_", " ") for name in rows[0]] if rows else ()
    print_table(header, [list(each.values()) for each in texts], empty=otherwise)


def _as_in_record(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
