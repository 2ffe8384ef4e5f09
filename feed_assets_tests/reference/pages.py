"""The generated pages, where they are, and what is wrong with the documentation as it is committed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from feed_assets_tests import ROOT
from feed_assets_tests.reference import api, commands, datasets, deliveries, example, settings, sources

DOCS = ROOT / "docs"
GENERATED: Mapping[Path, Callable[[], str]] = {
    DOCS / "reference/api.md": api.page,
    DOCS / "reference/commands.md": commands.page,
    DOCS / "reference/datasets.md": datasets.page,
    DOCS / "reference/deliveries.md": deliveries.page,
    DOCS / "reference/example.md": example.page,
    DOCS / "reference/settings.md": settings.page,
    DOCS / "reference/sources.md": sources.page,
}


def write() -> None:
    """Write all generated pages."""
    for path, page in GENERATED.items():
        path.write_text(page(), encoding="utf-8")


def problems() -> Iterator[str]:
    """A line for each generated page that is stale, and for each page that the navigation does not list."""
    for path, page in GENERATED.items():
        if not path.exists() or path.read_text(encoding="utf-8") != page():
            yield f"{path.relative_to(ROOT)} is stale: run `python -m feed_assets_tests.reference`."
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    listed = re.findall(r"[\w/-]+\.md", str(navigation))
    for path in sorted(DOCS.rglob("*.md")):
        if (name := path.relative_to(DOCS).as_posix()) not in listed:
            yield f"docs/{name} is not in the navigation: list it in zensical.toml, under `nav`."
