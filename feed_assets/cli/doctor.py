"""`feed-assets doctor`: what an installation needs to run, and whether it has it.

Here: settings, sources and definitions, and the table. Not here: the checks of machine and storage
(`operations.doctor`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from feed_assets.cli.code_location import chosen_module
from feed_assets.cli.exit_codes import FAILED
from feed_assets.cli.installation import find_dagster_home, load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_table

if TYPE_CHECKING:
    from feed_assets.cli.installation import Installation
    from feed_assets.operations.doctor import Finding


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool) -> None:
    """Check Java, Spark, storage, clock, Dagster, databases, sources, definitions and disks, and say what to do.

    Nothing is changed, and no password is shown. Exit code 1 if a check fails.
    """
    found = list(_findings())
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        rows = [(each.check, each.state, f"{each.found} {each.advice}".rstrip()) for each in found]
        print_table(["check", "state", "found"], rows, empty="")
    if failed := [each.check for each in found if each.state == "fails"]:
        complain(f"Error: {', '.join(failed)} must be corrected.")
        ctx.exit(FAILED)


def _findings() -> Iterator[Finding]:
    from feed_assets.operations.doctor import Finding, checked, examine  # noqa: PLC0415 - loads Dagster and pyspark
    from feed_assets.resources import Settings  # noqa: PLC0415 - as above
    from feed_assets.sources import SourceError  # noqa: PLC0415 - as above

    loaded: list[Installation] = []

    def sources() -> Finding:
        try:
            loaded.append(load_installation())
        except SourceError:
            raise
        except Exception:  # noqa: BLE001 - `definitions` reports it
            return Finding("sources", "warning", "The definitions do not load.", "Correct the definitions first.")
        known = loaded[0].sources
        where = loaded[0].settings.sources_directory
        if not known:
            return Finding("sources", "warning", f"There is no source in {where}.", "Put a YAML file for each there.")
        return Finding("sources", "ok", f"{len(known)} in {where}")

    def definitions() -> Finding:
        try:
            installation = loaded[0] if loaded else load_installation()
        except SourceError:
            return Finding("definitions", "fails", "They do not load without the sources.", "Correct the sources.")
        keys = installation.definitions.resolve_asset_graph().materializable_asset_keys
        return Finding("definitions", "ok", f"{chosen_module()} loads, {len(keys)} assets")

    def settings() -> Finding:
        read.append(loaded[0].settings if loaded else Settings.from_environment())
        return Finding("settings", "ok", f"FEED_ASSETS_BASE is {read[0].base}")

    read: list[Settings] = []
    of_project = [checked("sources", sources), checked("definitions", definitions)]
    yield checked("settings", settings)
    yield from of_project
    for each in read:
        yield from examine(each, find_dagster_home(each.base))
