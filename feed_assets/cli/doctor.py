"""`feed-assets doctor`: what an installation needs to run, and whether it has it.

Here: loading the project, and the table. Not here: the other checks (`operations.doctor`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from feed_assets.cli.installation import chosen_module, find_dagster_home, load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_table
from feed_assets.errors import FAILED

if TYPE_CHECKING:
    from feed_assets.operations.doctor import Finding
    from feed_assets.resources.settings import Settings


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool) -> None:
    """Check the project, Java, Spark, storage, clock, Dagster, databases and disks, and say what to do.

    Nothing is changed, and no password is shown. Exit code 1 if a check fails.
    """
    found = list(_findings())
    if as_json:
        print_json([{"check": name, **asdict(each)} for name, each in found])
    else:
        rows = [(name, each.state, f"{each.found} {each.advice}".rstrip()) for name, each in found]
        print_table(["check", "state", "found"], rows, empty="")
    if failed := [name for name, each in found if each.state == "fails"]:
        complain(f"To be corrected: {', '.join(failed)}.")
        ctx.exit(FAILED)


def _findings() -> Iterator[tuple[str, Finding]]:
    from feed_assets.blackboard.location import UnknownLocationError  # noqa: PLC0415 - as below
    from feed_assets.data_catalog.glue import CatalogError  # noqa: PLC0415 - as below
    from feed_assets.environment import SettingsError  # noqa: PLC0415 - as above
    from feed_assets.file_feed.wording import counted  # noqa: PLC0415 - as above
    from feed_assets.operations.doctor import Finding, checked, examine  # noqa: PLC0415 - loads Dagster and pyspark
    from feed_assets.project.assembly import Project  # noqa: PLC0415 - as above
    from feed_assets.resources.settings import Settings  # noqa: PLC0415 - as above
    from feed_assets.state.address import StoreError  # noqa: PLC0415 - as above
    from feed_assets.warehouse.port import WarehouseError  # noqa: PLC0415 - as above

    loaded: list[Project] = []

    def project() -> Finding:
        installation = load_installation()
        loaded.append(installation.project)
        assets = installation.definitions.resolve_asset_graph().materializable_asset_keys
        valid = sum(not source.problems for source in installation.sources)
        found = f"{chosen_module()} loads: {len(assets)} assets, {counted(valid, 'valid source')}"
        declared = installation.project.datasets
        return Finding("ok", f"{found}, {counted(len(declared), 'declared dataset')}" if declared else found)

    yield "project", checked(project)
    for source in loaded[0].sources if loaded else ():
        if source.problems:
            advice = f"Until it is corrected, its files do not land, and no day of {source.kind} is computed."
            yield source.key, Finding("fails", f"{'; '.join(source.problems.splitlines())}.", advice)
    try:
        settings = Settings.from_environment()
    except (SettingsError, StoreError, WarehouseError, CatalogError, UnknownLocationError):
        return  # the first line says so
    yield from examine(settings, find_dagster_home(settings.base))
    # The project knows where its destinations are.
    yield from _deliveries(loaded[0].settings if loaded else settings)


def _deliveries(settings: Settings) -> Iterator[tuple[str, Finding]]:
    from feed_assets.operations.doctor import Finding  # noqa: PLC0415 - as above

    try:
        from feed_assets.operations.doctor_deliveries import examine_deliveries  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        if any(settings.deliveries_directory.glob("*.yaml")):
            found = f"Deliveries need the package {error.name}."
            yield "deliveries", Finding("fails", found, "pip install 'feed_assets[delivery]'")
        return
    yield from examine_deliveries(settings)
