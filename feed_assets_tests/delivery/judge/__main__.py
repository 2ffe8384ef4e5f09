"""`python -m feed_assets_tests.delivery.judge PORT LOG`: the judge in a process of its own, until it is ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from feed_assets_tests.delivery.judge.server import run
from feed_assets_tests.delivery.judge.signatures import ACCESS_KEY, SECRET_KEY, Credentials

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m feed_assets_tests.delivery.judge", description=__doc__)
    parser.add_argument("port", type=int, help="of 127.0.0.1")
    parser.add_argument("log", type=Path, help="file for all stored records; it is made new")
    parser.add_argument("--access-key", default=ACCESS_KEY)
    parser.add_argument("--secret-key", default=SECRET_KEY)
    chosen = parser.parse_args()
    run(chosen.port, chosen.log, Credentials(chosen.access_key, chosen.secret_key))
