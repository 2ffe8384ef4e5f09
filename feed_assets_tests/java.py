"""Options with which every Java that the tests start takes less processor time.

Here: the options, the variables that carry them, and an archive of Spark's classes. Not here: anything that changes
what Spark computes, and options of the product, which follow these and so overrule them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

QUICK: Final = "-XX:TieredStopAtLevel=1"
"""Compile methods quickly: compiling them well takes longer than most of these processes run."""

# Java warns of an archive that it cannot use, as one of another Java.
_SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"

_LOADING: Final = """
from feed_assets.engine.session import warm_up
from feed_assets.resources import SparkResource
warm_up(SparkResource.on("local[1]").spark_session)
"""


def use_quick_java(archives: Path, *, make: bool) -> None:
    """Let Java compile quickly, and share the archive of this directory if it is there or is to be made."""
    archive = _archive(archives)
    if make:
        with (archives / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _make(archive)
    options = QUICK
    if archive.exists() and archive.stat().st_size:
        options += f" {_SILENT} -XX:SharedArchiveFile={archive}"
    for variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[variable] = options
    os.environ["SPARK_LAUNCHER_OPTS"] = QUICK  # of the small Java that finds out how to start the others


def _archive(archives: Path) -> Path:
    """The place of the archive, which is good for one Java and one installation of Spark."""
    java, jars = shutil.which("java"), Path(pyspark.__file__).parent / "jars"
    files = [Path(java).resolve(), jars] if java else [jars]
    of = [os.environ.get("JAVA_HOME"), _LOADING, *((str(file), file.stat().st_mtime_ns) for file in files)]
    return archives / f"{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}.jsa"


def _make(archive: Path) -> None:
    """Archive the classes that Spark loads; the file is empty if this Java cannot."""
    for old in archive.parent.glob("*.jsa"):
        old.unlink()
    making = archive.with_suffix(".making")
    making.unlink(missing_ok=True)
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"{QUICK} {_SILENT} -XX:ArchiveClassesAtExit={making}"}
    # Java writes the archive after the end of Python, and keeps the output open until then.
    subprocess.run([sys.executable, "-c", _LOADING], env=environment, capture_output=True, check=True)
    making.touch()
    making.rename(archive)
