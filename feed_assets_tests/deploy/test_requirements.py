"""The container's packages with their hashes: the pinned versions of all that the package needs, and nothing else."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from feed_assets_tests import ROOT


def pinned(path: Path) -> dict[str, str]:
    """The version of each package that a file of requirements pins."""
    found = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def needed(name: str, extras: frozenset[str]) -> set[tuple[str, frozenset[str]]]:
    """The packages that this one needs on this machine with any Python 3.11, with the extras that are asked for."""
    found = set()
    with suppress(PackageNotFoundError):  # of one that later versions of Python 3.11 do not need
        for each in map(Requirement, requires(name) or ()):
            environments = [{"extra": extra, "python_full_version": "3.11.0"} for extra in (extras or {""})]
            if each.marker is None or any(map(each.marker.evaluate, environments)):
                found.add((canonicalize_name(each.name), frozenset(each.extras)))
    return found


def test_every_package_of_the_container_has_its_pinned_version_and_hashes():
    text = (ROOT / "deploy/requirements.txt").read_text(encoding="utf-8")
    packages, constraints = pinned(ROOT / "deploy/requirements.txt"), pinned(ROOT / "constraints.txt")
    differing = {name: version for name, version in packages.items() if constraints.get(name) != version}
    assert differing == {}, "run `make hashes`"
    blocks = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert [block for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in text, "it names no host"

    todo, seen = {("feed-assets", frozenset({"", "delivery", "poll", "postgres"}))}, set()
    while todo:
        seen.add(package := todo.pop())
        todo |= needed(package[0], package[1] | {""}) - seen
    assert {name for name, _ in seen} - {"feed-assets"} == set(packages), "run `make hashes`"


def test_the_package_asks_for_the_tested_minor_versions_of_dagster_and_spark():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["postgres"]]
    constraints = pinned(ROOT / "constraints.txt")
    limited = {each.name: each.specifier for each in map(Requirement, asked) if re.match("dagster|pyspark", each.name)}

    assert len(limited) == 7
    for name, versions in limited.items():
        major, minor, *_ = map(int, constraints[name].split("."))
        assert constraints[name] in versions
        assert f"{major}.{minor}.999" in versions
        assert f"{major}.{minor + 1}.0" not in versions
        assert "0.11.14" not in versions, f"{name} of 2021 fits any Dagster"
