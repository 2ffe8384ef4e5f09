"""`make s3`: a real S3 server in the foreground, with a bucket, until Ctrl-C.

Its data stays in `.s3/`. The first server that this machine can have is started: versitygw, else Ceph.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from feed_assets_tests.servers.ceph import Ceph
from feed_assets_tests.servers.server import MissingServerError, S3Server
from feed_assets_tests.servers.versitygw import Versitygw

BUCKET = "feeds"
SERVERS: tuple[Callable[[Path, int], S3Server], ...] = (Versitygw, Ceph)


def first_of_machine(data: Path, port: int) -> S3Server:
    """The first server that can be had, with its data in a folder of its name. Exits with the reasons if none can."""
    reasons = []
    for server in SERVERS:
        try:
            return server(data / server.name, port)
        except MissingServerError as reason:
            reasons.append(f"{server.name}: {reason}")
    sys.exit("Error: no S3 server can be had on this machine.\n" + "\n".join(reasons))


def main(port: int, data: Path) -> None:
    """Run a server until it is interrupted."""
    print("Looking for a server; the first call may build or fetch it, which takes about two minutes ...", flush=True)
    server = first_of_machine(data, port)
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        sys.exit(f"Error: port {port} of 127.0.0.1 cannot be used ({error.strerror}). Choose one: make s3 PORT=7481")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.start()
        client = server.client()
        if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=BUCKET)
        exports = "\n".join(f"export {name}={value}" for name, value in server.environment.items())
        print(f"\n{server.name} keeps its data in {server.data}. In another terminal:\n\n{exports}\n")
        print(f"make demo BASE=s3://{BUCKET}/demo\n\nCtrl-C stops it.", flush=True)
        while server.running:
            time.sleep(0.5)
        sys.exit(f"Error: {server.name} ended. Its logs are beside its data.")
    except KeyboardInterrupt:
        print(f"Stopping {server.name}.")
    except RuntimeError as error:
        sys.exit(f"Error: {error}")
    finally:
        server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
