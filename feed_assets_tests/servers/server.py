"""What the servers for tests have in common: where programs are kept, and how processes start and end.

Here: a server's address, credentials and processes. Not here: one server's programs and settings (see `versitygw`,
`ceph` and `spark_cluster`). A server listens on 127.0.0.1, needs no root, and ends with the process that started it,
also if that is killed.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import boto3

from feed_assets_tests.listening import free_port
from feed_assets_tests.quick import forbid_under_quick
from feed_assets_tests.waiting import HANGS

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

SECONDS_TO_STOP = 20


class MissingServerError(Exception):
    """This machine cannot have the server. The message says what is missing."""


class LocalServer:
    """Processes whose data is in a directory; they can be killed and started again on the same data and port.

    Port 0 is a free one. Raises MissingServerError.
    """

    name: ClassVar[str]
    is_optional: ClassVar[bool] = False
    """Whether continuous integration, too, skips its tests where it cannot be had."""

    def __init__(self, data: Path, port: int = 0) -> None:
        if not shutil.which("setpriv"):
            raise MissingServerError("there is no program setpriv (package util-linux)")
        data.mkdir(parents=True, exist_ok=True)
        self.data = data.resolve()
        self.port = port or free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to use the server."""
        raise NotImplementedError

    @property
    def running(self) -> bool:
        """Whether all its processes run."""
        return bool(self._processes) and all(process.poll() is None for process in self._processes)

    def start(self) -> None:
        """Start the processes; returns when the server answers. Raises RuntimeError with the end of a log."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the processes, the last one first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End all processes at once, as a crash does."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        while self._processes:
            process = self._processes.pop()
            process.send_signal(number)
            try:
                process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        """Start a process that the kernel kills when this one ends; its output goes to a log beside the data."""
        # A session of its own: Ctrl-C on the terminal reaches only the caller, who stops the processes in order.
        forbid_under_quick(self.name)
        guarded = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        with self._log(Path(command[0]).name).open("ab") as log:
            process = subprocess.Popen(
                guarded, env=dict(environment), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._processes.append(process)

    def _log(self, program: str) -> Path:
        return self.data.with_name(f"{self.data.name}.{program}.log")

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Return when it is ready. Raises RuntimeError with the logs' ends if a process ends before, or all hang."""
        deadline = time.monotonic() + HANGS
        while not ready():
            ended = [str(process.args) for process in self._processes if process.poll() is not None]
            if ended:
                self._fail(f"{self.name}: these processes ended: {ended}")
            if time.monotonic() > deadline:
                self._fail(f"{self.name} was not ready within {HANGS:.0f} s")
            time.sleep(0.02)

    def _fail(self, what: str) -> NoReturn:
        """End all processes, and raise RuntimeError with the logs' ends."""
        self.kill()
        logs = [path.read_text("utf-8", "replace")[-3000:] for path in self.data.parent.glob(f"{self.data.name}.*.log")]
        raise RuntimeError("\n".join([what, *logs]))

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class AwsServer(LocalServer):
    """A server with the protocol of a service of AWS, named as in `AWS_ENDPOINT_URL_...`."""

    service: ClassVar[str]
    region: str = "us-east-1"
    access_key: str = "testing"
    secret_key: str = "testing-only"

    @property
    def endpoint(self) -> str:
        """The URL for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """See `LocalServer.environment`."""
        return {
            f"AWS_ENDPOINT_URL_{self.service}": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The same for clients of boto3 in processes with another environment, such as Spark's."""
        return {
            "endpoint_url": self.endpoint,
            "region_name": self.region,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
        }


class S3Server(AwsServer):
    """A server with the protocol of S3."""

    service = "S3"

    def client(self) -> S3Client:
        """A client with the server's credentials."""
        return boto3.client("s3", **self.settings)


def cache() -> Path:
    """The user's directory for programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "feed_assets"


@contextmanager
def kept(name: str) -> Iterator[Path]:
    """The directory for programs of this name, to be filled by one process at a time."""
    place = cache() / name
    place.mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place


def done(command: Sequence[str | Path], **settings: object) -> str:
    """The output of a command. Raises MissingServerError with the end of its messages."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload]
    except FileNotFoundError as error:
        raise MissingServerError(f"there is no program {error.filename}") from None
    if ran.returncode:
        raise MissingServerError(f"{' '.join(map(str, command[:3]))} failed: {ran.stderr.strip()[-500:]}")
    return str(ran.stdout)
