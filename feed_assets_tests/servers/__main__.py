"""`make s3` and `make cluster`: a real S3 server, or a cluster of Spark, in the foreground until Ctrl-C.

The S3 server is versitygw with a bucket; its data stays in `.s3/`. The cluster's logs and its workers' folders are in
`.cluster/`.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from feed_assets_tests.servers.server import LocalServer, MissingServerError
from feed_assets_tests.servers.spark_cluster import WORKERS, SparkCluster
from feed_assets_tests.servers.versitygw import Versitygw

BUCKET = "feeds"


def s3(port: int) -> None:
    """Run an S3 server with a bucket until it is interrupted."""
    print("Looking for versitygw; the first call may build it, which takes about two minutes ...", flush=True)
    try:
        server = Versitygw(Path(".s3") / Versitygw.name, port)
    except MissingServerError as reason:
        sys.exit(f"Error: no S3 server can be had on this machine: {reason}.")

    def ready() -> str:
        client = server.client()
        if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=BUCKET)
        return (
            f"{server.name} keeps its data in {server.data}. In another terminal:\n\n{_exports(server)}\n\n"
            f"make demo BASE=s3://{BUCKET}/demo"
        )

    _serve(server, ready)


def cluster(port: int) -> None:
    """Run a master of Spark and its workers until they are interrupted. Executors find this process's environment."""
    server = SparkCluster(Path(".cluster/work"), port)

    def ready() -> str:
        return (
            f"A master of Spark and {WORKERS} workers with a core and 1 GiB each. In another terminal:\n\n"
            f"{_exports(server)}\n\nmake demo BASE=s3://{BUCKET}/cluster\n\n"
            "Executors read and write the bucket with the credentials that this terminal has exported. The cluster's "
            "secret is in SPARK_CONF_DIR, where only you can read it: nobody else can run anything here."
        )

    _serve(server, ready)


def _exports(server: LocalServer) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in server.environment.items())


def _serve(server: LocalServer, ready: Callable[[], str]) -> None:
    """Start a server, say what `ready` returns, and wait until it is interrupted or ends."""
    try:
        socket.create_server(("127.0.0.1", server.port)).close()
    except OSError as error:
        sys.exit(
            f"Error: port {server.port} of 127.0.0.1 cannot be used ({error.strerror}). "
            f"Choose one: make {sys.argv[1]} PORT={server.port + 1}"
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.start()
        print(f"\n{ready()}\n\nCtrl-C stops it.", flush=True)
        while server.running:
            time.sleep(0.5)
        sys.exit(f"Error: {server.name} ended. Its logs are beside {server.data}.")
    except KeyboardInterrupt:
        print(f"Stopping {server.name}.")
    except RuntimeError as error:
        sys.exit(f"Error: {error}")
    finally:
        server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m feed_assets_tests.servers", description=__doc__.partition("\n")[0])
    parser.add_argument("server", choices=["s3", "cluster"])
    parser.add_argument("port", type=int, help="of 127.0.0.1; 1 to 65535")
    chosen = parser.parse_args()
    if chosen.port not in range(1, 65536):
        parser.error(f"{chosen.port} is no port from 1 to 65535")
    {"s3": s3, "cluster": cluster}[chosen.server](chosen.port)
