"""What Spark needs to read and write a bucket: jars, the way to the store, and a committer without renames.

Here: the versions of these jars, fetching them once, and Hadoop's settings for S3. Not here: credentials; Java's AWS
SDK looks for them where boto3 does (environment, profile, role), so none is ever in Spark's configuration.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pyspark
from py4j.protocol import Py4JJavaError

from feed_assets.engine.java import ensure_java
from feed_assets.engine.jvm import java_machine
from feed_assets.engine.paths import to_write
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.errors import FeedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from types_boto3_s3 import S3Client

VARIABLE: Final = "FEED_ASSETS_SPARK_JARS"
"""A directory with the jars, for machines that reach no registry."""

_SDK: Final = "2.35.4"
_SDK_MODULES: Final = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client", "auth")
# The newest on Maven. Its committers run in pyspark 4.3; Spark publishes no jar of them for each version.
_COMMITTERS: Final = "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1"
# What pyspark has, what other clouds need, and the SDK in one jar of hundreds of MB.
_EXCLUDED: Final = (
    "software.amazon.awssdk:bundle",
    *(f"org.apache.hadoop:hadoop-{name}" for name in ("client-*", "azure*", "cloud-storage", "gcp", "tos", "aliyun")),
    *("com.google.cloud*:*", "com.squareup*:*", "org.eclipse.jetty:*", "org.wildfly.openssl:*", "joda-time:*"),
    *("com.fasterxml.jackson*:*", "io.netty:*", "commons-codec:*", "org.slf4j:*"),
)

LOCAL_COMMITTERS: Final = {
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
"""Spark's defaults, stated, so that a session that wrote to a bucket writes to a disk again."""

_FILE_SYSTEM: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_BUCKET_SETTINGS: Final = {
    # The files appear when the job commits, by completing uploads: there is no rename, and nothing else is left.
    "fs.s3a.committer.name": "magic",
    # An executor that died leaves uploads. Nobody else writes to the place of a claim.
    "fs.s3a.committer.abort.pending.uploads": "true",
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    # Parts wait in memory, at most 4 of 16 MiB for each open file: executors need no disk, and Hadoop's buffers on disk
    # do not work with local files without checksums.
    "fs.s3a.fast.upload.buffer": "bytebuffer",
    "fs.s3a.multipart.size": "16M",
    # The default, "analytics", sends two GETs less for a small file, but keeps 30 KB for each file until the JVM ends.
    "fs.s3a.input.stream.type": "classic",
    # Hadoop tries a plain read again when its answer is cut short, and does not so with Parquet's vectored reads.
    "parquet.hadoop.vectored.io.enabled": "false",
    "fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
}

_log = logging.getLogger("feed_assets.engine")


def concerns_storage(name: str) -> bool:
    """Whether this property of a session is about the store or its committer."""
    return name in _BUCKET_SETTINGS or name.startswith("fs.s3a.")


class JarsError(FeedAssetsError):
    """Spark's jars for S3 could not be had; the message says how to get them."""


class UnfitStoreError(FeedError):
    """The store refuses what Spark has to send; the message says what to use instead."""


@contextmanager
def path_to_write(uri: str) -> Iterator[str]:
    """The path with which Spark writes to this URI. Raises UnfitStoreError."""
    try:
        yield to_write(uri)
    except Py4JJavaError as error:
        text = str(error)
        if "PUT 0-byte object" not in text or "XAmzContentSHA256Mismatch" not in text:
            raise
        raise UnfitStoreError(
            f"Spark cannot write {uri}: over HTTP, the store refuses the signed uploads of empty objects that Spark "
            "begins with, as Ceph 16 does. Give it an https endpoint (AWS_ENDPOINT_URL_S3), or use another store."
        ) from error


def bucket_settings(client: S3Client) -> dict[str, str]:
    """The properties of a session that works on the store of this client: endpoint, region, addresses, committer.

    Raises UnfitStoreError for an endpoint with a password, which Spark's pages and errors would show.
    """
    found = {**_BUCKET_SETTINGS, "fs.s3a.endpoint.region": client.meta.region_name}
    endpoint = client.meta.endpoint_url
    if "@" in urlsplit(endpoint).netloc:
        raise UnfitStoreError(
            "The endpoint of the store (AWS_ENDPOINT_URL_S3) has a user or a password, which S3 does not use. Take "
            "them out. The endpoint is not shown, because it may contain a secret."
        )
    if re.fullmatch(r"https://s3[.\w-]*\.amazonaws\.com(\.cn)?", endpoint):
        # S3A states this to Java's SDK, which therefore does not look for AWS_USE_FIPS_ENDPOINT itself.
        return {**found, "fs.s3a.endpoint.fips": str("s3-fips." in endpoint).lower()}
    # boto3 does likewise for a store other than AWS.
    style = (getattr(client.meta.config, "s3", None) or {}).get("addressing_style")
    path_style = "false" if style == "virtual" else "true"
    return {**found, "fs.s3a.endpoint": endpoint, "fs.s3a.path.style.access": path_style}


def bucket_jars() -> list[Path]:
    """The jars: those in the directory FEED_ASSETS_SPARK_JARS, else fetched once for this user. Raises JarsError."""
    if named := os.environ.get(VARIABLE):
        jars = sorted(Path(named).expanduser().glob("*.jar"))
        if not jars:
            raise JarsError(f"{VARIABLE} is {named}, and no jar is there. {_how_to_get()}")
        return jars
    try:
        cached = user_cache() / f"s3-jars-{short_digest(repr((_packages(), _EXCLUDED)))}"
        if not cached.is_dir():
            _fetch(cached)
    except (OSError, RuntimeError) as error:  # the user has no home, or cannot write there
        raise JarsError(
            f"Spark's jars for S3 cannot be kept in this user's cache: {str(error).rstrip('.')}. Set XDG_CACHE_HOME to "
            f"a directory that this user can write, or {VARIABLE} to a directory with the jars."
        ) from error
    return sorted(cached.glob("*.jar"))


@lru_cache(maxsize=1)
def check_classes(spark: SparkSession) -> None:
    """Raise JarsError if this session has no S3A or no committers. Another program may have started it.

    Java is asked once for a session that has them: Dagster makes several resources of one, and new ones for each run.
    """
    loader = java_machine(spark).java.lang.Thread.currentThread().getContextClassLoader()
    for name in (_FILE_SYSTEM, _BUCKET_SETTINGS["spark.sql.sources.commitProtocolClass"]):
        try:
            loader.loadClass(name)
        except Py4JJavaError:
            raise JarsError(
                f"Spark runs without the class {name}, so it cannot write to a bucket: give `spark-submit` the jars "
                f"(--jars), or --packages org.apache.hadoop:hadoop-aws of Spark's Hadoop and {_COMMITTERS}."
            ) from None


def _packages() -> list[str]:
    jars = Path(pyspark.__file__).parent / "jars"
    (client,) = jars.glob("hadoop-client-api-*.jar")
    hadoop = client.stem.removeprefix("hadoop-client-api-")
    sdk = (f"software.amazon.awssdk:{module}:{_SDK}" for module in _SDK_MODULES)
    return [f"org.apache.hadoop:hadoop-aws:{hadoop}", _COMMITTERS, *sdk]


def user_cache() -> Path:
    """Where this user's caches of the package are."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "feed_assets"


def _fetch(target: Path) -> None:
    """Let Spark resolve the packages, with its own settings of repositories, and keep the jars in `target`."""
    _log.warning("Fetching Spark's jars for S3 (14 MB), once, into %s", target)
    ensure_java()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the rename is atomic: two processes may fetch at once.
    with TemporaryDirectory(dir=target.parent) as scratch:
        program = Path(scratch, "nothing.py")
        program.touch()
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        done = subprocess.run(  # noqa: S603 - pyspark's own program, with constants
            [
                *(submit, "--master", "local[1]", "--conf", f"spark.jars.ivy={scratch}"),
                *("--packages", ",".join(_packages()), "--exclude-packages", ",".join(_EXCLUDED), program),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        jars = Path(scratch, "jars")
        if done.returncode or not jars.is_dir():
            problems = re.findall(r"UNRESOLVED DEPENDENCY: .*|unresolved dependency: .*|Exception.*: .*", done.stderr)
            raise JarsError(f"Spark's jars for S3 cannot be fetched: {'; '.join(problems[:2])}. {_how_to_get()}")
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():
                raise


def _how_to_get() -> str:
    return (
        f"On a machine that reaches Maven's repository, run a command on a bucket once, copy {user_cache()}/s3-jars-*, "
        f"and set {VARIABLE} to the directory here."
    )
