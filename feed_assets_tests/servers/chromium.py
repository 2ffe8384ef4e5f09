"""Debian's Chromium, for tests of pages: on the PATH, or of its packages, which are unpacked once.

Here: where the browser is, and the environment that it needs there. Not here: using it (Playwright).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from feed_assets_tests.servers.debian import libraries, unpacked
from feed_assets_tests.servers.server import MissingServerError

PACKAGES = ("chromium", "fonts-dejavu-core")


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser: its program, and the environment in which it starts."""

    program: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def chromium() -> Chromium:
    """The browser of this machine. Raises MissingServerError if it can have none."""
    if found := shutil.which("chromium") or shutil.which("chromium-browser"):
        return Chromium(Path(found))
    root = unpacked("chromium", PACKAGES)
    program = root / "usr/lib/chromium/chromium"
    if not program.exists():
        raise MissingServerError("the package chromium of this Linux has no program: install Chromium")
    settings = root / "fonts.conf"
    settings.write_text(
        f'<?xml version="1.0"?><fontconfig><dir>/usr/share/fonts</dir><dir>{root / "usr/share/fonts"}</dir>'
        f"<cachedir>{root / 'font-cache'}</cachedir></fontconfig>",
        encoding="utf-8",
    )
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(map(str, [program.parent, *libraries(root)])),
        "FONTCONFIG_FILE": str(settings),
    }
    return Chromium(program, environment)
