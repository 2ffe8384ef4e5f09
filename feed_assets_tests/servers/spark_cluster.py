"""A standalone cluster of Spark from the Python package: a master and two workers, each with a loopback address.

Here: starting it, the address of its master, and the secret without which it does nothing. Not here: a session on it.
Its executors get credentials from the environment in which the cluster was started, as they would from the roles of
their machines.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pyspark

from feed_assets.engine.java import ensure_java
from feed_assets_tests.listening import family
from feed_assets_tests.servers.server import LocalServer
from feed_assets_tests.waiting import HANGS

WORKERS: Final = 2
_GUARDED: Final = {
    # Master, workers and executors take messages of those only who know the secret.
    "spark.authenticate": "true",
    # Knows no secret, and would run programs for everybody who reaches its port.
    "spark.master.rest.enabled": "false",
    # The pages of master and workers show logs, and end applications: whoever asks has to sign with the secret.
    "spark.ui.filters": "org.apache.spark.ui.JWSFilter",
    "spark.ui.enabled": "false",
}
_PROGRAM = Path(pyspark.__file__).parent / "bin" / "spark-class"


class SparkCluster(LocalServer):
    """A master and two workers of one core and 1 GiB each. Logs and the workers' folders are in and beside `data`.

    They do nothing for others than this user. Each start makes a new secret, in a file that only this user can read.
    """

    name = "spark"

    @property
    def master(self) -> str:
        """The master's URL."""
        return f"spark://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """See `LocalServer.environment`. The driver finds the secret in a file, and listens on 127.0.0.1 as well."""
        return {
            "FEED_ASSETS_SPARK_MASTER": self.master,
            "SPARK_CONF_DIR": str(self.configuration),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    @property
    def configuration(self) -> Path:
        """The directory of `spark-defaults.conf`, for the cluster and its drivers."""
        return self.data.with_name(f"{self.data.name}.conf")

    def start(self) -> None:
        """See `LocalServer.start`."""
        self._configure()
        self._start_master()
        self._wait(self._answers)
        for _ in range(WORKERS):
            self.start_worker()

    def start_worker(self) -> None:
        """One more worker, which has registered when this returns."""
        expected = self._registered() + 1
        # Spark never speculates on the host of the slow attempt.
        host = f"127.0.0.{len(self._processes)}"
        options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(self.data), self.master]
        self._start("worker", "Worker", host, *options)
        deadline = time.monotonic() + HANGS
        while self._registered() < expected:
            if time.monotonic() > deadline or not self.running:
                raise RuntimeError(f"a worker did not start; see {self._log(_PROGRAM.name)}")
            time.sleep(0.1)

    def restart_master(self) -> None:
        """Kill the master and start it again, without memory of applications; the workers come back to it."""
        master, *workers = self._processes
        master.kill()
        master.wait()
        expected = self._registered() + len(workers)
        self._start_master()
        self._processes = [self._processes[-1], *workers]
        self._wait(lambda: self._registered() >= expected)

    def kill_worker(self) -> None:
        """End the newest worker at once, and with it its executors."""
        process = self._processes.pop()
        process.kill()
        process.wait()

    def executors(self) -> list[psutil.Process]:
        """The executors of all applications, which are processes of their own."""
        found = []
        for worker in self._processes:
            for each in family(worker.pid):
                # A process may end while it is looked at, as those of Python below an executor do.
                with suppress(psutil.NoSuchProcess):
                    if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                        found.append(each)
        return found

    def _configure(self) -> None:
        """Keep a new secret where Spark looks for its settings. An option or a variable of Spark would show it."""
        for folder in (self.configuration, self.data):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
        secret = secrets.token_urlsafe(48)
        settings = {
            **_GUARDED,
            "spark.authenticate.secret": secret,
            f"spark.{_GUARDED['spark.ui.filters']}.param.secretKey": secret,
        }
        file = self.configuration / "spark-defaults.conf"
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.writelines(f"{name} {value}\n" for name, value in settings.items())

    def _start_master(self) -> None:
        self._start("master", "Master", "127.0.0.1", "--host", "127.0.0.1", "--port", str(self.port))

    def _start(self, package: str, name: str, host: str, *options: str) -> None:
        ensure_java()
        environment = {**os.environ, **self.environment, "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
        if options_of_tests := os.environ.get("SPARK_DAEMON_JAVA_OPTS"):
            environment["JDK_JAVA_OPTIONS"] = options_of_tests  # Java reads it in each executor, too
        self._run([_PROGRAM, f"org.apache.spark.deploy.{package}.{name}", "--webui-port", "0", *options], environment)

    def _registered(self) -> int:
        return self._log(_PROGRAM.name).read_text("utf-8", "replace").count("Registering worker")

    def _answers(self) -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        return False
