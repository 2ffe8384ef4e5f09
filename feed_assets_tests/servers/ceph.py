"""A RADOS gateway of Ceph on one small store: an S3 server that departs from AWS and survives crashes.

Here: where its programs come from, and how they are started: a monitor, a store and the gateway. Debian's packages are
unpacked into the user's cache; nothing is installed. The settings shorten the start, and let one store be enough.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from feed_assets_tests.listening import free_port
from feed_assets_tests.servers.debian import libraries, unpacked
from feed_assets_tests.servers.server import S3Server

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

PACKAGES = ("radosgw", "ceph-mon", "ceph-osd")
_PROGRAMS = ("radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "monmaptool", "osdmaptool")


@dataclass(frozen=True, slots=True)
class Installation:
    """Where Ceph's programs are: on the PATH, or below `root` if the packages are only unpacked."""

    root: Path | None = None

    def program(self, name: str) -> Path:
        """One of the programs."""
        return self.root / "usr/bin" / name if self.root else Path(name)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the programs."""
        if self.root is None:
            return dict(os.environ)
        paths = [str(path) for each in libraries(self.root) for path in (each, each / "ceph")]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}

    @property
    def settings(self) -> dict[str, str]:
        """Settings that name the directories of plug-ins."""
        if self.root is None:
            return {}
        (plugins,) = self.root.glob("usr/lib/*-linux-gnu*/ceph")
        return {
            "plugin_dir": str(plugins),
            "erasure_code_dir": str(plugins / "erasure-code"),
            "osd_class_dir": str(plugins.parent / "rados-classes"),
        }


def installation() -> Installation:
    """Ceph on the PATH, or of Debian's packages, which are fetched once. Raises MissingServerError."""
    if all(shutil.which(program) for program in _PROGRAMS):
        return Installation()
    return Installation(unpacked("ceph", PACKAGES))


class Ceph(S3Server):
    """A gateway, its monitor and its store, with all their data below `data`."""

    name = "ceph"

    def __init__(self, data: Path, port: int = 0) -> None:
        self._installation = installation()
        super().__init__(data, port)
        self._configuration = self.data / "ceph.conf"

    def start(self) -> None:
        """See `S3Server.start`."""
        new = not self._configuration.exists()
        if new:
            self._make()
        self._daemon("ceph-mon", "-i", "a")
        self._daemon("ceph-osd", "-i", "0")
        if new:
            user = ["--uid=testing", "--display-name=testing"]
            keys = [f"--access-key={self.access_key}", f"--secret-key={self.secret_key}"]
            self._tool("radosgw-admin", "user", "create", *user, *keys, "--conf", self._configuration)
        endpoint = f"beast endpoint=127.0.0.1:{self.port} tcp_nodelay=1"
        self._daemon("radosgw", f"--rgw_frontends={endpoint}")
        self._wait(self._answers)

    def client_of(self, user: str, policy: str) -> S3Client:
        """A client of a new user with this policy, a document of AWS IAM. Its keys follow from its name."""
        conf = ("--conf", self._configuration)
        # Idempotent, so that the server's own user may manage policies.
        self._tool("radosgw-admin", "caps", "add", "--uid=testing", "--caps=user-policy=*", *conf)
        keys = [f"--access-key=key-of-{user}", f"--secret-key=secret-of-{user}"]
        self._tool("radosgw-admin", "user", "create", f"--uid={user}", f"--display-name={user}", *keys, *conf)
        place = {"endpoint_url": self.endpoint, "region_name": self.region}
        owner = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
        boto3.client("iam", **place, **owner).put_user_policy(UserName=user, PolicyName="only", PolicyDocument=policy)
        own = {"aws_access_key_id": f"key-of-{user}", "aws_secret_access_key": f"secret-of-{user}"}
        return boto3.client("s3", **place, **own)

    def _make(self) -> None:
        """Make a cluster of one monitor and one store; their maps are made by hand, as nobody is there to ask."""
        cluster, monitor = str(uuid.uuid4()), f"127.0.0.1:{free_port()}"
        settings = {
            "fsid": cluster,
            "mon_host": f"[v2:{monitor}]",
            "public_addr": "127.0.0.1",
            "cluster_addr": "127.0.0.1",
            "auth_cluster_required": "none",
            "auth_service_required": "none",
            "auth_client_required": "none",
            "ms_mon_client_mode": "crc",  # the gateway's default is to encrypt, which needs authentication
            "run_dir": str(self.data),
            "admin_socket": "",
            "pid_file": "",
            "log_file": "",
            "log_to_stderr": "false",
            "err_to_stderr": "true",
            "mon_cluster_log_file": "",
            "mon_data": str(self.data / "monitor"),
            "osd_data": str(self.data / "store"),
            "osd_journal": "",
            "rgw_data": str(self.data / "gateway"),
            # One store is enough, and there is no manager to tune it.
            "osd_pool_default_size": "1",
            "osd_pool_default_min_size": "1",
            "mon_allow_pool_size_one": "true",
            "mon_data_avail_crit": "0",  # by default, a monitor ends itself on a disk that is 95 % full
            "osd_crush_chooseleaf_type": "0",
            "osd_pool_default_pg_num": "2",
            "osd_pool_default_pgp_num": "2",
            "osd_pool_default_pg_autoscale_mode": "off",
            "osd_objectstore": "bluestore",
            "bluestore_block_size": str(32 * 1024**3),  # a file that is as large as what was written
            "osd_memory_target": str(1024**3),
            # The start takes seconds instead of a quarter of a minute.
            "paxos_propose_interval": "0.05",
            "osd_pool_default_read_lease_ratio": "0.1",  # after a crash, a store waits until the leases before it end
            "rgw_enable_usage_log": "false",
            "rgw_thread_pool_size": "32",
        } | self._installation.settings
        lines = ["[global]", *(f"{name} = {value}" for name, value in settings.items()), ""]
        for folder in ("monitor", "store", "gateway"):
            (self.data / folder).mkdir()
        preparing, maps = self.data / "ceph.conf.new", (self.data / "monmap", self.data / "osdmap")
        preparing.write_text("\n".join(lines), encoding="utf-8")
        self._tool("monmaptool", "--create", "--fsid", cluster, "--addv", "a", f"[v2:{monitor}]", maps[0])
        self._tool("osdmaptool", "--createsimple", "1", "--clobber", maps[1], "--conf", preparing)
        made = ["--mkfs", "--no-mon-config", "--conf", preparing]
        self._tool("ceph-mon", *made, "-i", "a", "--monmap", maps[0], "--osdmap", maps[1])
        self._tool("ceph-osd", *made, "-i", "0", "--monmap", maps[0], "--osd-uuid", str(uuid.uuid4()))
        preparing.rename(self._configuration)

    def _daemon(self, name: str, *arguments: str) -> None:
        found = self._installation
        self._run([found.program(name), "-f", "--conf", self._configuration, *arguments], found.environment)

    def _tool(self, name: str, *arguments: str | Path) -> None:
        """Run a program to its end. It would wait for minutes for a daemon that has died: then it is ended too."""
        found = self._installation
        command = [found.program(name), *arguments]
        with self._log(name).open("ab") as log:
            tool = subprocess.Popen(command, env=found.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            self._wait(lambda: tool.poll() is not None)
        finally:
            tool.kill()
            tool.wait()
        if tool.returncode:
            self._fail(f"{' '.join(map(str, command[:3]))} failed")
