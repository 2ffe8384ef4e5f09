"""How the sources of an installation stand, for `feed-assets sources status` and for the service.

Not here: the answer (`web.source_answers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from feed_assets.cli.installation import Installation, find_dagster_home, load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_text, say
from feed_assets.cli.source_names import sources_named
from feed_assets.errors import FAILED

if TYPE_CHECKING:
    import dagster as dg

    from feed_assets.sources.spec import Source
    from feed_assets.state.store import Store
    from feed_assets.web.source_answers import SourceSays


def standing_of(
    installation: Installation,
    store: Store,
    instance: dg.DagsterInstance | None,
    sources: Sequence[Source],
) -> list[SourceSays]:
    """How these sources stand. Dagster's instance knows when they were polled. Raises StoreError."""
    from feed_assets.sensors.arrivals import polled_until  # noqa: PLC0415 - loads Dagster
    from feed_assets.web.source_answers import sources_say  # noqa: PLC0415 - loads SQLAlchemy

    def known_until(source: Source) -> datetime | None:
        return None if instance is None else polled_until(instance, source)

    base, now = installation.blackboard.uri(""), installation.settings.clock.now()
    return sources_say(store, base, sources, now=now, known_until=known_until)


@click.command()
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@json_option
@click.pass_context
def status(ctx: click.Context, names: Sequence[str], *, as_json: bool) -> None:
    """Show how each SOURCE stands, or all; warnings first.

    It tells silence, changed columns, days that wait, and records that cannot be used. Sensors note what arrives, while
    `feed-assets dev` or Dagster runs: the answer is that of the page of sources in `feed-assets serve`. Exit code 1 if
    there is a warning.
    """
    import msgspec  # noqa: PLC0415 - loaded for answers only

    from feed_assets.state.store import Store  # noqa: PLC0415 - loads SQLAlchemy

    installation = load_installation()
    wanted = sources_named(installation, names) if names else installation.sources
    found = _with_polls(installation, Store(installation.settings.state), wanted)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        for each in found:
            for sentence in each.warnings:
                print_text(f"WARNING  {each.source}: {sentence}", indent="    ")
            for sentence in each.sentences:
                print_text(f"{each.source}: {sentence}", indent="    ")
    if not found:
        say(f"There is no source in {installation.settings.sources_directory}.")
    if warned := [each.source for each in found if each.warnings]:
        complain(f"With warnings: {', '.join(warned)}.")
        ctx.exit(FAILED)


def _with_polls(installation: Installation, store: Store, sources: Sequence[Source]) -> list[SourceSays]:
    """How sources stand; Dagster's instance is opened only if one of them is polled."""
    home = find_dagster_home(installation.settings.base)
    if home is None or not any(source.poll for source in sources):
        return standing_of(installation, store, None, sources)
    from feed_assets.operations.day_runs import instance_at  # noqa: PLC0415 - loads Dagster

    with instance_at(home, {}) as instance:
        return standing_of(installation, store, instance, sources)
