"""Servers and sessions that take long to start, shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import boto3
import pytest
from hypothesis import HealthCheck, settings

from feed_assets.cli.main import COLLECTIONS
from feed_assets_tests.forked import start_server
from feed_assets_tests.java import use_quick_java
from feed_assets_tests.revisions import read_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from types_boto3_s3 import S3Client

    from feed_assets_tests.blackboard.sized import SizedStore
    from feed_assets_tests.delivery.judge.running import JudgeServer
    from feed_assets_tests.harness import Installation
    from feed_assets_tests.servers.ceph import Ceph
    from feed_assets_tests.servers.dynalite import Dynalite
    from feed_assets_tests.servers.ferrokinesis import Ferrokinesis
    from feed_assets_tests.servers.redis import RedisServer
    from feed_assets_tests.servers.server import LocalServer
    from feed_assets_tests.servers.versitygw import Versitygw

    Server = TypeVar("Server", bound=LocalServer)


pytest_plugins = ["feed_assets_tests.quick"]

FIRST_OF_SPARK = frozenset({"ads", "assets", "sources"})
"""The folders with half of the work of all tests that use Spark."""

LONG = frozenset({"sensors", "spark_delivery", "warm_runs", "web", "workflow"})
"""The folders with the longest files."""

# How fast examples are made depends on what else the machine does.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

gc.set_threshold(*COLLECTIONS)  # also while the tests are loaded, which takes a third longer otherwise


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let processes share the tests: those that use Spark go to two of them, as a session takes long to start.

    The other tests go to all processes file by file. The groups have no effect on a run in one process. The longest
    begin first, so that no process works alone at the end.
    """
    for item in items:
        path = item.nodeid.partition("::")[0]
        half = "first" if _folder(item) in FIRST_OF_SPARK else "second"
        item.add_marker(pytest.mark.xdist_group(f"{half} half of Spark" if _uses_spark(item) else path))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: 0 if _uses_spark(item) else 1 if _folder(item) in LONG else 2)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let each Java, each process and each database that tests start be quick, and take Ctrl-C."""
    if not session.config.option.collectonly:
        # Who is started in the background of a script ignores Ctrl-C, and so does all that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not session.config.option.quick:  # which starts no Java
            use_quick_java()
        read_once()
        start_server()


def _folder(item: pytest.Item) -> str:
    return item.nodeid.split("/")[1]


def _uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(autouse=True)
def _own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3's default session keeps the credentials of its first client; each test has those of its environment."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.fixture(scope="session")
def s3_server(slow_start: None) -> Iterator[str]:
    """The endpoint of a server of S3 in this process, with any credentials accepted and no bucket in it."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - slow to load, and few tests need it

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    # S3 decides a conditional write atomically, moto looks first and writes then: so one request at a time.
    server._server.app = _one_at_a_time(server._server.app)
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3_client(s3_server: str) -> S3Client:
    """A client of `s3_server`, made as Dagster makes it."""
    from dagster_aws.s3 import S3Resource  # noqa: PLC0415 - slow to load, and few tests need it

    return S3Resource(
        endpoint_url=s3_server,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    ).get_client()


@pytest.fixture(scope="session")
def versitygw(slow_start: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    """A real server of S3 that decides conditions as AWS does."""
    from feed_assets_tests.servers.versitygw import Versitygw  # noqa: PLC0415 - slow to load, and few tests need it

    yield from _running(Versitygw, tmp_path_factory.mktemp("versitygw"))


@pytest.fixture(scope="session")
def ceph(slow_start: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceph]:
    """A real server of S3 that departs from AWS: the RADOS gateway."""
    from feed_assets_tests.servers.ceph import Ceph  # noqa: PLC0415 - slow to load, and few tests need it

    yield from _running(Ceph, tmp_path_factory.mktemp("ceph"))


@pytest.fixture(scope="session")
def dynalite(slow_start: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dynalite]:
    """A server of DynamoDB's protocol, in a process of its own."""
    from feed_assets_tests.servers.dynalite import Dynalite  # noqa: PLC0415 - slow to load, and few tests need it

    yield from _running(Dynalite, tmp_path_factory.mktemp("dynalite"))


@pytest.fixture(scope="session")
def ferrokinesis(slow_start: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ferrokinesis]:
    """A server of Kinesis's protocol by others, if it was built."""
    from feed_assets_tests.servers.ferrokinesis import Ferrokinesis  # noqa: PLC0415 - as above

    yield from _running(Ferrokinesis, tmp_path_factory.mktemp("ferrokinesis"))


@pytest.fixture(scope="session")
def redis_server(slow_start: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A real server of Redis, with a password."""
    from feed_assets_tests.servers.redis import RedisServer  # noqa: PLC0415 - as above

    yield from _running(RedisServer, tmp_path_factory.mktemp("redis"))


@pytest.fixture
def judge(slow_start: None, tmp_path: Path) -> Iterator[JudgeServer]:
    """A judge of Kinesis clients in a process of its own, new for each test. It does not touch the environment."""
    from feed_assets_tests.delivery.judge.running import judging  # noqa: PLC0415 - slow to load, and few tests need it

    with judging(tmp_path) as started:
        yield started


def _running(server: type[Server], folder: Path) -> Iterator[Server]:
    from feed_assets_tests.servers.server import MissingServerError, S3Server  # noqa: PLC0415 - slow to load

    try:
        started = server(folder / "data")
    except MissingServerError as reason:
        if os.environ.get("CI") and not server.is_optional:
            raise
        pytest.skip(f"No {server.name}: {reason}")
    if isinstance(started, S3Server):
        started.secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY/for+tests"  # as of AWS; tests look for it everywhere
    started.start()
    yield started
    started.kill()  # nobody is going to read the data again


@pytest.fixture(scope="session")
def server(slow_start: None) -> Iterator[str]:
    """The URL of a real PostgreSQL server, without a database."""
    from feed_assets_tests.state.server import postgresql  # noqa: PLC0415 - as above

    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a state database that nobody has used."""
    from feed_assets.state.address import sqlite_url  # noqa: PLC0415 - slow to load, and few tests need it
    from feed_assets_tests.state.server import new_database  # noqa: PLC0415 - as above

    if request.param == "sqlite":
        return sqlite_url(tmp_path / "a directory" / "state.db")
    return new_database(request.getfixturevalue("server"))


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest) -> SizedStore:
    """Stores for tests of how requests grow: in memory with pages of 1000 objects, in a bucket with pages of 20."""
    from feed_assets_tests.blackboard.sized import SizedStore  # noqa: PLC0415 - slow to load, and few tests need it

    if request.param == "memory":
        return SizedStore(1000)
    return SizedStore(20, request.getfixturevalue("versitygw"))


@pytest.fixture(scope="session")
def spark(slow_start: None) -> Iterator[SparkSession]:
    """One warm session on two cores for all tests, set up as the project sets up its own."""
    from feed_assets.engine.buckets import JarsError, bucket_jars  # noqa: PLC0415 - as above
    from feed_assets.resources.spark import SparkResource  # noqa: PLC0415 - slow to load, and many tests need none

    jars: list[Path] = []
    with suppress(JarsError):  # the tests that need the jars say so
        jars = bucket_jars()
    more = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.app.name": "feed_assets_tests",
        "spark.log.level": "ERROR",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    session = SparkResource.on("local[2]", **more).spark_session
    yield session
    session.stop()


@pytest.fixture
def use_environment(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str]], None]:
    """Gives boto3 and Spark the address of a server of S3, and credentials."""
    from feed_assets.engine.buckets import bucket_jars  # noqa: PLC0415 - loads Spark's Python side
    from feed_assets.engine.jvm import java_machine  # noqa: PLC0415 - as above

    def use(environment: Mapping[str, str]) -> None:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        # Java's environment is the one in which it started.
        system = java_machine(spark).java.lang.System
        system.setProperty("aws.accessKeyId", environment["AWS_ACCESS_KEY_ID"])
        system.setProperty("aws.secretAccessKey", environment["AWS_SECRET_ACCESS_KEY"])

    bucket_jars()
    return use


@pytest.fixture
def bucket(versitygw: Versitygw, use_environment: Callable[[Mapping[str, str]], None]) -> str:
    """The URI of a new bucket on a real server, which boto3 and Spark can use."""
    name = f"feeds-{uuid4().hex}"
    versitygw.client().create_bucket(Bucket=name)
    use_environment(versitygw.environment)
    return f"s3://{name}"


def _one_at_a_time(app: Callable[..., Any]) -> Callable[..., Any]:
    lock = threading.Lock()

    def locked(environ: Any, start_response: Any) -> Any:
        with lock:
            return app(environ, start_response)

    return locked


@pytest.fixture(params=["ephemeral"])
def dagster_instance(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Dagster instance of the test's own: in memory, or with `sqlite` as the parameter on disk."""
    import dagster as dg  # noqa: PLC0415 - slow to load, and many tests need none

    if request.param == "ephemeral":
        yield dg.DagsterInstance.ephemeral()
    else:
        with dg.instance_for_test() as instance:
            yield instance


@pytest.fixture
def desk(tmp_path: Path, dagster_instance: Any) -> Installation:
    """An installation with one partner, a shop that sends ads and clicks; nothing is computed, so no Spark starts."""
    return _installation(tmp_path, dagster_instance)


@pytest.fixture
def shop(desk: Installation, spark: SparkSession) -> Installation:
    """The same with a warm Spark, which the project finds and uses."""
    del spark
    return desk


@pytest.fixture(scope="module")
def shared_shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Installation:
    """Such a shop for all tests of a file that leave in force what they found there."""
    import dagster as dg  # noqa: PLC0415 - slow to load, and many tests need none

    del spark
    return _installation(tmp_path_factory.mktemp("shared-shop"), dg.DagsterInstance.ephemeral())


def _installation(directory: Path, dagster_instance: Any) -> Installation:
    from feed_assets_tests.harness import (  # noqa: PLC0415 - slow to load, and many tests need none
        SHOP_ADS,
        SHOP_CLICKS,
        Installation,
        settings_below,
        write_sources,
    )

    sources = write_sources(directory / "sources", SHOP_ADS, SHOP_CLICKS)
    return Installation(settings_below(directory / "base", sources), dagster_instance)


@pytest.fixture(scope="session")
def path_without_java(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with every program of this machine, save Java."""
    programs = tmp_path_factory.mktemp("no-java") / "bin"
    programs.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = programs / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(programs)
