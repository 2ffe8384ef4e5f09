"""Drives the example project as its user does, in one process with one Spark: prints what came of each step as JSON.

It runs in the example's folder, and knows nothing but what is installed there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
from click.testing import CliRunner
from shop import definitions

import feed_assets
from feed_assets.cli.main import main
from feed_assets.file_feed import latest, open_feed, parse_time

DAY = "2024-03-04"
NOW = parse_time("2024-03-05T06:00:00")
ORDERS = open_feed("data/clean-orders/v1.0")
CURSORS: dict[str, str] = {}


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(main, ["--module", "shop.definitions", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def tick(name: str) -> tuple[dg.RunRequest, ...]:
    """Evaluate a sensor as the daemon does, and execute what it asks for."""
    defs = definitions.defs
    sensor, instance = defs.resolve_sensor_def(name), dg.DagsterInstance.get()
    resources = {key: defs.resources[key] for key in sensor.required_resource_keys}
    with dg.build_sensor_context(
        instance=instance, cursor=CURSORS.get(name), definitions=defs, resources=resources
    ) as context:
        result = sensor.evaluate_tick(context)
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
    CURSORS[name] = result.cursor or ""
    for request in result.run_requests or ():
        done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            partition_key=request.partition_key,
            asset_selection=request.asset_selection,
            run_config=request.run_config,
            tags=request.tags,
        )
        assert done.success
    return tuple(result.run_requests or ())


def asked(name: str) -> list[list[str]]:
    return [
        [each.partition_key or "", *sorted(key.to_user_string() for key in each.asset_selection or ())]
        for each in tick(name)
    ]


def revenue() -> list[list[Any]]:
    update = latest(open_feed("data/revenue/v1.0"), DAY, now=NOW)
    assert update is not None
    found = [
        row
        for path in Path(update.uri.removeprefix("file://")).glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    return sorted([row["name"], row["orders"], row["refunds"], str(row["euros"]), row["unconverted"]] for row in found)


def in_force() -> str:
    update = latest(ORDERS, DAY, now=NOW)
    assert update is not None
    return update.name


results: dict[str, Any] = {}
for source, file in (("web_orders", "orders.csv"), ("web_refunds", "refunds.jsonl")):
    (landed,) = json.loads(run("land", source, f"sample/{file}", "--json").stdout)
    results[f"landed {file}"] = landed["landed"]
backfill = run("backfill", "--from", DAY, "--to", DAY, "--select", "clean_orders,clean_refunds")
results["backfill"] = [backfill.exit_code, backfill.stdout.split()[1]]
for feed, file, partition in (
    ("products", "products.csv", []),
    ("exchange-rates", "rates.csv", ["-p", f"{DAY}-12:00"]),
):
    assert run("feed", "publish", f"data/{feed}/v1.0", f"sample/{file}", *partition).exit_code == 0
results["caught up"] = asked("new_manifests")
results["revenue"] = revenue()
results["late, before"] = asked("late_growth")
assert run("land", "web_orders", "sample/late-orders.csv").exit_code == 0
results["late"] = asked("late_growth")
results["revenue with late orders"] = revenue()
before = in_force()
assert run("land", "web_orders", "sample/broken-orders.csv").exit_code == 0
broken = run("backfill", "--from", DAY, "--to", DAY, "--select", "clean_orders")
results["broken"] = [broken.exit_code, "accepted_values" in broken.output, in_force() == before]
(story, *_) = json.loads(run("explain", DAY, "--json").stdout)
results["explained"] = [story["asset"], [update["state"] for update in story["updates"]]]
results["feeds"] = sorted(each["location"] for each in json.loads(run("feeds", "--json").stdout))
results["knows an ad"] = sorted(
    name for name in sys.modules if name.startswith(("feed_assets.ads", "feed_assets.ads.assets"))
)
results["package"] = feed_assets.__file__
report = run("report")
results["report"] = [report.exit_code, report.stderr.strip().splitlines()[-1]]
sys.stdout.write(json.dumps(results))
