"""`python -m feed_assets.workers MODULE`: the pool of workers for the Dagster home of DAGSTER_HOME."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from feed_assets.workers.pool import Pool

if __name__ == "__main__":
    Pool(Path(os.environ["DAGSTER_HOME"]), sys.argv[1]).serve()
