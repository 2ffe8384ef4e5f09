"""Choosing sources by the names that the command line gives: `<name>` or `<kind>/<name>`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from feed_assets.cli.installation import Installation

if TYPE_CHECKING:
    from feed_assets.sources.spec import Source


def sources_named(
    installation: Installation,
    names: Sequence[str],
    *,
    only: Callable[[Source], bool] = lambda _: True,
    described: str = "",
    parameter: str = "SOURCE",
) -> list[Source]:
    """The sources with these names, or without names all of them, among those that `only` accepts.

    Leaves out sources whose description cannot be used, which the project logs. Raises ClickException if a
    name is that of such a source, and BadParameter if there is none of a name; it says what `only` accepts as
    `described`.
    """
    for source in installation.sources:
        if source.problems and {source.name, source.key} & set(names):
            raise click.ClickException(f"{source.key} is stopped: correct its description.")
    known = [source for source in installation.sources if not source.problems and only(source)]
    for name in names:
        if not any(name in {source.name, source.key} for source in known):
            there = ", ".join(source.key for source in known) or f"none in {installation.settings.sources_directory}"
            message = f"There is no source {name!r}{described}. There are: {there}."
            raise click.BadParameter(message, param_hint=parameter)
    return [source for source in known if not names or {source.name, source.key} & set(names)]


def source_named(
    installation: Installation,
    name: str,
    *,
    only: Callable[[Source], bool] = lambda _: True,
    described: str = "",
    parameter: str = "SOURCE",
) -> Source:
    """The one source with this name, as by `sources_named`. Raises BadParameter if kinds share the name, too."""
    found = sources_named(installation, [name], only=only, described=described, parameter=parameter)
    if len(found) > 1:
        names = ", ".join(source.key for source in found)
        raise click.BadParameter(f"Several sources are named {name!r}: {names}. Give the kind.", param_hint=parameter)
    return found[0]
