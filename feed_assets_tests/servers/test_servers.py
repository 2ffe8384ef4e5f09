"""The real servers themselves: they keep what they acknowledged, and end with whoever started them."""

from __future__ import annotations

import http.client
import os
import pwd
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from feed_assets.blackboard.location import open_blackboard
from feed_assets.engine.java import ensure_java
from feed_assets.engine.session import check_master
from feed_assets_tests import ROOT
from feed_assets_tests.listening import family, free_port, listening
from feed_assets_tests.servers import ferrokinesis, versitygw
from feed_assets_tests.servers.fault_proxy import FaultProxy
from feed_assets_tests.servers.faulty import END
from feed_assets_tests.servers.server import MissingServerError, S3Server
from feed_assets_tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(params=["versitygw", "ceph"])
def server(request: pytest.FixtureRequest) -> S3Server:
    return request.getfixturevalue(request.param)


def test_what_a_server_acknowledged_is_there_after_a_crash(server: S3Server):
    client = server.client()
    client.create_bucket(Bucket="crashes")
    expected = {f"a/{number}": b"%d" % number for number in range(20)}
    for key, content in expected.items():
        client.put_object(Bucket="crashes", Key=key, Body=content)
    server.kill()
    assert not server.running
    server.start()
    assert {key: client.get_object(Bucket="crashes", Key=key)["Body"].read() for key in expected} == expected


def test_a_server_of_which_a_process_has_died_says_so_instead_of_waiting_for_it(ceph):
    monitor = ceph._processes[0]
    monitor.kill()
    monitor.wait()
    with pytest.raises(RuntimeError, match=r"these processes ended: .*ceph-mon"):
        ceph.client_of("nobody", "{}")
    assert not ceph.running
    ceph.start()


@pytest.mark.parametrize("name", ["versitygw", "ceph", "dynalite", "redis_server", "ferrokinesis"])
def test_a_server_listens_on_loopback_only(request: pytest.FixtureRequest, name: str):
    processes = [each for started in request.getfixturevalue(name)._processes for each in family(started.pid)]
    assert {address for _, address in listening(processes)} == {"loopback"}


def test_no_process_of_the_tests_asks_the_machine_that_it_runs_on_for_credentials():
    variable = "AWS_EC2_METADATA_DISABLED"
    assert os.environ[variable] == "true"
    environment = {name: value for name, value in os.environ.items() if name != variable}
    shown = f"import os, feed_assets_tests.servers.server; print(os.environ['{variable}'])"
    command = [sys.executable, "-c", shown]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "true\n"


def test_the_program_of_the_servers_says_how_it_is_called():
    program = [sys.executable, "-m", "feed_assets_tests.servers"]
    help_ = subprocess.run([*program, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "{s3,cluster} port" in help_.stdout
    for arguments in ([], ["s4", "7480"], ["s3", "port"], ["s3", "65536"]):
        refused = subprocess.run([*program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


STARTS_A_SERVER = """
import sys, time
from pathlib import Path
from feed_assets_tests.servers.versitygw import Versitygw
server = Versitygw(Path(sys.argv[1]))
server.start()
print(server.endpoint, *(process.pid for process in server._processes), flush=True)
time.sleep(60)
"""


@pytest.mark.usefixtures("versitygw")
def test_a_server_ends_when_whoever_started_it_is_killed(tmp_path: Path):
    command = [sys.executable, "-c", STARTS_A_SERVER, tmp_path / "data"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        _, pid = starter.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        starter.kill()
    ended(int(pid))


def ended(pid: int) -> None:
    status = Path(f"/proc/{pid}/status")
    until(lambda: not status.exists() or "\nState:\tZ" in status.read_text())


@pytest.mark.usefixtures("versitygw")
def test_the_server_of_make_s3_says_how_to_use_it_and_keeps_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    port = free_port()
    for expected in ([], ["x"]):
        with in_foreground("s3", port, tmp_path) as (exports, _):
            for name, value in exports.items():
                monkeypatch.setenv(name, value)
            board = open_blackboard("s3://feeds/base")
            assert [entry.key for entry in board.page("").entries] == expected
            if not expected:
                board.create("x", b"")
                refused = subprocess.run(command("s3", port), cwd=ROOT, capture_output=True, text=True, check=False)
                assert refused.returncode == 1
                assert f"port {port} of 127.0.0.1 cannot be used" in refused.stderr


COMPUTES = """
import os
from feed_assets.engine.java import ensure_java
from feed_assets.engine.session import spark_config, start_session
ensure_java()
spark = start_session(spark_config(os.environ["FEED_ASSETS_SPARK_MASTER"]))
print(spark.range(100).selectExpr("sum(id)").first()[0], flush=True)
input()
"""


def test_the_cluster_of_make_cluster_computes_for_its_user_alone_and_shows_its_secret_nowhere(tmp_path: Path):
    port = free_port()
    with in_foreground("cluster", port, tmp_path) as (exports, serving):
        master, conf = exports["FEED_ASSETS_SPARK_MASTER"], Path(exports["SPARK_CONF_DIR"], "spark-defaults.conf")
        assert master == f"spark://127.0.0.1:{port}"
        check_master(master)
        settings = dict(line.split() for line in conf.read_text().splitlines())
        secret = settings["spark.authenticate.secret"]
        for path in (*conf.parents, conf):
            if path.is_relative_to(tmp_path / ".cluster") and path.name != ".cluster":
                assert path.stat().st_mode & 0o077 == 0, path

        # Neither without a secret, nor with one that is guessed.
        guess = "-Dspark.authenticate=true -Dspark.authenticate.secret=guess"
        for options, refusal in (("", "Expected SaslMessage"), (guess, "digest response format violation")):
            refused = as_another_user(["org.apache.spark.deploy.Client", "launch", master, "file:/x.jar", "X"], options)
            assert (refused.returncode, refusal in refused.stderr) == (1, True), refused.stderr
        job = b'{"action": "CreateSubmissionRequest"}'
        assert {answer_to(address, job) for address in addresses(serving.pid)} == {None, 403}

        driving = [sys.executable, "-c", COMPUTES]
        environment = {**os.environ, **exports}
        pipe = subprocess.PIPE
        with subprocess.Popen(driving, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "4950\n"
            shown = list(command_lines(serving.pid, driver.pid))
            assert [line for line in shown if "CoarseGrainedExecutorBackend" in line]
            assert not [line for line in shown if secret in line]
            driver.communicate("\n")
        files = [path for path in (tmp_path / ".cluster").rglob("*") if path.is_file() and path != conf]
        assert [path for path in files if path.name == "stderr"]
        assert not [path for path in files if secret.encode() in path.read_bytes()]

    log = (tmp_path / ".cluster/work.spark-class.log").read_text()
    assert (log.count("Registering app "), log.count("Driver submitted")) == (1, 0)


def as_another_user(arguments: Sequence[str], java_options: str) -> subprocess.CompletedProcess[str]:
    """What a class of Spark answers a user without the secret; it is this user if only root could become another."""
    ensure_java()
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    another = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if not os.getuid() else {}
    if another and subprocess.run(["test", "-r", program], **another, check=False).returncode:
        another = {}  # it cannot read this checkout
    environment = {**os.environ, "JDK_JAVA_OPTIONS": java_options, "SPARK_LOCAL_IP": "127.0.0.1"}
    # A cluster that takes the program would keep its client waiting.
    how = {"cwd": "/", "env": environment, "timeout": 120, **another}
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, **how)


def command_lines(*pids: int) -> Iterator[str]:
    """The command lines of processes and all that they started, as `ps` shows them."""
    for process in (each for pid in pids for each in family(pid)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            yield " ".join(process.cmdline())


def addresses(pid: int) -> set[tuple[str, int]]:
    """Where a process and all that it started listen."""
    connections = [each for process in family(pid) for each in process.net_connections("tcp")]
    bound = [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]
    found = {(each.ip.removeprefix("::ffff:"), each.port) for each in bound}
    assert len(found) >= 6  # a port for messages and one for pages, of the master and of two workers
    return found


def answer_to(address: tuple[str, int], job: bytes) -> int | None:
    """The status with which a server answers a job that is submitted by HTTP; None if it does not speak HTTP."""
    connection = http.client.HTTPConnection(*address, timeout=10)
    try:
        connection.request("POST", "/v1/submissions/create", job)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def command(server: str, port: int) -> list[str]:
    return [sys.executable, "-m", "feed_assets_tests.servers", server, str(port)]


@contextmanager
def in_foreground(server: str, port: int, directory: Path) -> Iterator[tuple[dict[str, str], subprocess.Popen[str]]]:
    """Run the command of a make target in this directory; yields its exports and its process, and ends it by Ctrl-C."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command(server, port), cwd=directory, env=environment, stdout=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        exports = {}
        for line in iter(serving.stdout.readline, "Ctrl-C stops it.\n"):
            assert line, "it ended before it had started"
            if line.startswith("export "):
                name, _, value = shlex.split(line)[1].partition("=")
                exports[name] = value
        try:
            yield exports, serving
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(30) == 0


def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(versitygw.PROGRAM_VARIABLE, os.devnull)
    with pytest.raises(MissingServerError, match=f"{versitygw.PROGRAM_VARIABLE}={os.devnull} is not a program"):
        versitygw.program()


def test_a_build_of_minutes_is_not_begun_by_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingServerError, match="it is not built; `make ferrokinesis` does that"):
        ferrokinesis.Ferrokinesis(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_ferrokinesis_is_built_by_the_cargo_of_this_machine_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ferrokinesis, "_CARGO", tmp_path / "cargo")
    with pytest.raises(MissingServerError, match="there is no cargo"):
        ferrokinesis.build()


def test_make_s3_says_how_to_get_its_server_and_takes_no_other(tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), versitygw.PROGRAM_VARIABLE: os.devnull}
    refused = subprocess.run(
        command("s3", free_port()), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    reason = f"{versitygw.PROGRAM_VARIABLE}={os.devnull} is not a program"
    assert (refused.returncode, refused.stderr.splitlines()) == (
        1,
        [f"Error: no S3 server can be had on this machine: {reason}."],
    )
    assert list(tmp_path.iterdir()) == []


def test_the_answer_to_a_refused_head_has_no_body(versitygw, tmp_path: Path):
    proxy = FaultProxy(tmp_path, versitygw)
    proxy.start()
    try:
        proxy.inject(internal_error=1)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as connection:
            connection.sendall(b"HEAD / HTTP/1.1\r\nHost: store\r\n\r\n" * 2)
            answers = b""
            while answers.count(END) < 2:
                answers += connection.recv(4096)
    finally:
        proxy.kill()
    heads = answers.split(END)
    assert [head.partition(b"\r\n")[0] for head in heads] == [b"HTTP/1.1 500 Internal Server Error"] * 2 + [b""]
