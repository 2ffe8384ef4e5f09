"""Programs from packages of Debian, unpacked into the user's cache: nothing is installed, and nobody has to be root.

Here: fetching and unpacking. Not here: how a program finds its files there (`ceph`, `chromium`).
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from feed_assets_tests.servers.server import MissingServerError, done, kept


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """The root below which these packages are, with all that they need and this machine lacks.

    They are fetched once. Raises MissingServerError.
    """
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        raise MissingServerError(
            f"{name} is not on the PATH, and this is no Linux whose packages could be unpacked"
        ) from None
    with kept(f"{name}-{system['ID']}-{system.get('VERSION_ID', '')}") as place:
        root = place / "root"
        if not root.exists():
            _unpack(place, root, packages)
        return root


def libraries(root: Path) -> list[Path]:
    """The directories of libraries below a root.

    Packages find those in directories of their own, such as pulseaudio's, by paths that are not below the root.
    """
    found = [*root.glob("usr/lib/*-linux-gnu*"), *root.glob("lib/*-linux-gnu*")]
    own = {library.parent for each in found for library in each.glob("*/lib*.so*")}
    return [*found, *sorted(own)]


def _unpack(place: Path, root: Path, packages: Sequence[str]) -> None:
    lists, debs = place / "lists", place / "packages"
    debs.mkdir(exist_ok=True)
    # Own lists: any user may fetch them, and the machine's may be empty or old.
    options = {
        "Dir::State::Lists": str(lists),
        "Dir::Cache": str(place / "cache"),
        "Dir::Log": str(place),
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    for folder in (lists / "partial", place / "cache/archives/partial"):
        folder.mkdir(parents=True, exist_ok=True)
    done([*apt, "update"])
    listed = done([*apt, "install", "--print-uris", "--no-install-recommends", *packages]).splitlines()
    names = [line.split()[1].split("_")[0] for line in listed if line.startswith("'")]
    done([*apt, "download", *names], cwd=debs)
    # First beside its place: an interrupted call leaves no half of an installation.
    unpacking = place / "unpacked"
    for package in sorted(debs.glob("*.deb")):
        done(["dpkg", "-x", package, unpacking])
    unpacking.rename(root)
    for folder in (debs, lists, place / "cache"):
        shutil.rmtree(folder)
