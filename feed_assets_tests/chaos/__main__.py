"""`make chaos`: writers, readers, retention, landing and watchers, killed and stopped, on a disk and on S3 with faults.

Prints a table, or JSON; exits with 1 if a guarantee was broken, with 2 if a base cannot be had. The histories of a run
with violations are kept, and their place is named.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from feed_assets_tests.chaos.bases import SERVERS, started
from feed_assets_tests.chaos.broken import BROKEN
from feed_assets_tests.chaos.run import Chaos, Result
from feed_assets_tests.servers.server import MissingServerError

MOST_SECONDS: Final = 1800.0
SHOWN: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run on each base in turn; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m feed_assets_tests.chaos", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() % 10**6, help="decides faults and who is killed when"
    )
    parser.add_argument("--kills", type=int, default=1000, help="how many, on all bases together (default: 1000)")
    parser.add_argument("--base", nargs="+", default=["disk", "s3"], metavar="DIR|disk|s3|versitygw|ceph")
    parser.add_argument("--broken", choices=list(BROKEN), help="let writers with this mistake take part")
    parser.add_argument("--life", type=float, default=4, help="seconds that a worker lives, on average (default: 4)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args(arguments)
    names = [name for base in chosen.base for name in (SERVERS if base == "s3" else [base])]
    results = []
    for number, name in enumerate(names):
        kills = chosen.kills * (number + 1) // len(names) - chosen.kills * number // len(names)
        try:
            results.append(_run(name, kills, chosen))
        except MissingServerError as reason:
            print(f"Error: {name} cannot be had: {reason}. Choose other bases with --base.", file=sys.stderr)
            return 2
    if chosen.json:
        print(json.dumps({"seed": chosen.seed, "runs": [result.to_plain() for result in results]}, indent=1))
    else:
        _show(results, chosen.seed)
    return 1 if any(result.violations for result in results) else 0


def _run(name: str, kills: int, chosen: argparse.Namespace) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Without a thread of its own: this process forks.
    with (
        started(name, folder, chosen.seed) as base,
        Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress,
    ):
        task = progress.add_task(f"{name}: kills", total=kills)
        shown = time.monotonic()

        def show(done: int) -> None:
            nonlocal shown
            if time.monotonic() > shown + 0.5:
                shown = time.monotonic()
                progress.update(task, completed=done, refresh=True)

        chaos = Chaos(base, folder / "run", chosen.seed, chosen.broken, chosen.life)
        # The first violation is enough to show that a broken writer is found.
        result = chaos.run(kills, seconds=MOST_SECONDS, progress=show, early=chosen.broken is not None)
        progress.update(task, completed=min(result.kills, kills), refresh=True)
    if result.violations:
        print(f"The histories are in {folder / 'run' / 'histories'}.", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return result


def _show(results: Sequence[Result], seed: int) -> None:
    console = Console()
    table = Table(title=f"chaos, seed {seed}")
    for column in ("base", "kills", "stopped", "points", "published", "reads", "landings", "faults", "failed", "s"):
        table.add_column(column, justify="left" if column == "base" else "right")
    table.add_column("violations", justify="right")
    for result in results:
        done = result.acknowledged
        reads = sum(count for kind, count in done.items() if kind.startswith("read") or kind == "pin")
        figures = (result.kills, result.stops, result.points, done.get("publish", 0), reads, done.get("land", 0))
        more = (sum(result.faults.values()), sum(result.failed.values()), round(result.seconds), len(result.violations))
        table.add_row(result.base, *(f"{figure:,}" for figure in (*figures, *more)))
    console.print(table)
    for result in results:
        for each in result.violations[:SHOWN]:
            console.print(f"{result.base}: {each.guarantee}: {each.how}", markup=False)
        if len(result.violations) > SHOWN:
            console.print(f"{result.base}: and {len(result.violations) - SHOWN} more; --json lists all.")


if __name__ == "__main__":
    sys.exit(main())
