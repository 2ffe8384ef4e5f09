"""versitygw: an S3 server over a directory, which decides conditions as AWS does.

Here: where its program comes from, and how it is started. It is built from source once, if Go is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import boto3

from feed_assets_tests.listening import free_port
from feed_assets_tests.servers.server import MissingServerError, S3Server, done, kept

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
PROGRAM_VARIABLE = "FEED_ASSETS_VERSITYGW"
_GO = Path("/usr/local/go/bin/go")
# Without inlining, debug information and C, and with fewer collections of garbage, a build takes half of the time.
_QUICK_BUILD = ("-gcflags=all=-l -dwarf=false", "-ldflags=-s -w")
_QUICK_COMPILER = {"CGO_ENABLED": "0", "GOGC": "400"}


def program() -> Path:
    """The program: of the environment variable, on the PATH, or built. Raises MissingServerError."""
    given = os.environ.get(PROGRAM_VARIABLE) or shutil.which("versitygw")
    if given:
        if not os.access(given, os.X_OK):
            raise MissingServerError(f"{PROGRAM_VARIABLE}={given} is not a program")
        return Path(given)
    with kept(f"versitygw-{VERSION}") as place:
        built = place / "versitygw"
        if not built.exists():
            go = shutil.which("go") or str(_GO)
            if not os.access(go, os.X_OK):
                raise MissingServerError(
                    f"there is no versitygw on the PATH, and no Go to build it: install Go, or set {PROGRAM_VARIABLE}"
                )
            # First beside its place: a build that is interrupted leaves no program.
            building = place / "building"
            command = [go, "install", *_QUICK_BUILD, f"{MODULE}@{VERSION}"]
            done(command, env={**os.environ, **_QUICK_COMPILER, "GOBIN": str(building)})
            (building / "versitygw").rename(built)
        return built


class Versitygw(S3Server):
    """A server of one process; buckets are directories in `data`, objects are files."""

    name = "versitygw"

    def __init__(self, data: Path, port: int = 0) -> None:
        self._program = program()
        super().__init__(data, port)

    def place(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Put objects into a new bucket as files of `data`: 10,000 take a second, and over HTTP half a minute."""
        self.client().create_bucket(Bucket=bucket)
        for key, content in objects.items():
            path = self.data / bucket / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.setxattr(path, "user.etag", f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'.encode())

    def start(self) -> None:
        """See `LocalServer.start`."""
        self._serve("--region", self.region, "--port", f"127.0.0.1:{self.port}", "posix", self.data)
        self._wait(self._answers)

    def _serve(self, *arguments: str | Path) -> None:
        root = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        self._run([self._program, "--quiet", "--keep-alive", *arguments], {**os.environ, **root})


class VersitygwWithUsers(Versitygw):
    """The same with a service of users, whose policies it asks for at each request."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self._service, self._socket = free_port(), self.data.with_name("iam.sock")

    def start(self) -> None:
        """See `LocalServer.start`."""
        users = self.data.with_name("users")
        users.mkdir(exist_ok=True)
        self._serve("--port", f"127.0.0.1:{self._service}", "iam", "--dir", users, "--private-ports", self._socket)
        self._wait(self._socket.exists)
        listening = ("--region", self.region, "--port", f"127.0.0.1:{self.port}")
        self._serve(*listening, "--iam-standalone-endpoint", self._socket, "posix", self.data)
        self._wait(self._answers)

    def environment_of(self, user: str, policy: str) -> dict[str, str]:
        """The environment of a new user with this policy, a document of AWS IAM."""
        iam = boto3.client(
            "iam",
            endpoint_url=f"http://127.0.0.1:{self._service}",
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )
        iam.create_user(UserName=user)
        iam.put_user_policy(UserName=user, PolicyName="only", PolicyDocument=policy)
        key = iam.create_access_key(UserName=user)["AccessKey"]
        return self.environment | {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }
