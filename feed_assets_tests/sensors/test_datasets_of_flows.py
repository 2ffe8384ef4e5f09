"""Flows as datasets: what others see of them, whoever makes them and however they are cut."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

import feed_assets as fa
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed import FeedInput
from feed_assets.project.assembly import Project
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import Installation, messages

DAY, FIRST = "2019-11-24", date(2019, 11, 20)
ORDERS, REPORT = "orders/v1.0", "report/v1.0"
SCHEMA = StructType([StructField("user", StringType()), StructField("orders", LongType())])
IO = "file_feed"


def of_project(installation: Installation, assets: Any) -> Installation:
    """The installation of a project with these assets, without sources."""
    settings = replace(installation.settings, first_day=FIRST, as_of=datetime(2019, 11, 26, tzinfo=UTC))
    project = Project(settings, ())
    return replace(
        installation,
        settings=settings,
        cursors=installation.cursors,
        _definitions=project.definitions(assets=assets(project.days)),
    )


def flow(name: str, location: str, days: Any, compute: Any, *, reads: str = "orders") -> dg.AssetsDefinition:
    """A flow that computes its feed from another one."""

    @dg.asset(
        name=name,
        ins={"rows": dg.AssetIn(reads, input_manager_key=IO)},
        partitions_def=days,
        io_manager_key=IO,
        metadata={**fa.feed_metadata(location, SCHEMA), **fa.trigger(settle=timedelta(0))},
    )
    def made(rows: DataFrame) -> DataFrame:
        return compute(rows)

    return made


def states_of(installation: Installation) -> Dependencies:
    flows = Flows.of(AssetFeedGraph.of(installation.definitions.get_repository_def()), (), FIRST)
    states = flows.states(installation.store, installation.board)
    states.refresh()
    return states


def revision(installation: Installation, feed: str) -> int:
    states = states_of(installation)
    return states.answer(states.dataset(feed).slot(DAY)).revision


def test_d41_intermediates_stay_private(desk: Installation):
    def assets(days: dg.DailyPartitionsDefinition) -> Sequence[Any]:
        @dg.asset(partitions_def=days, metadata=fa.feed_metadata(ORDERS, SCHEMA), io_manager_key=IO)
        def orders() -> DataFrame:
            raise AssertionError

        @dg.asset(partitions_def=days, deps=[orders])
        def scratch() -> None:
            """Whatever a flow keeps between its steps."""

        @dg.asset(
            partitions_def=days,
            deps=[orders, scratch],
            metadata={**fa.feed_metadata(REPORT, SCHEMA), **fa.trigger()},
            io_manager_key=IO,
        )
        def report() -> DataFrame:
            raise AssertionError

        return [orders, scratch, report]

    # The page, the API and `feed-assets deps datasets` list these, and take no other name.
    assert set(states_of(of_project(desk, assets)).datasets) == {ORDERS, REPORT}


def test_d42_another_producer_takes_over_a_dataset_and_its_consumers_change_nothing(desk: Installation):
    def report(days: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
        return flow("report", REPORT, days, lambda rows: rows)

    def ours(days: dg.DailyPartitionsDefinition) -> Sequence[Any]:
        @dg.asset(partitions_def=days, metadata=fa.feed_metadata(ORDERS, SCHEMA), io_manager_key=IO)
        def orders() -> DataFrame:
            raise AssertionError

        return [orders, report(days)]

    def theirs(days: dg.DailyPartitionsDefinition) -> Sequence[Any]:
        of_others = dg.AssetSpec("orders", partitions_def=days, metadata=fa.feed_metadata(ORDERS, SCHEMA))
        return [of_others, report(days)]

    def publish(installation: Installation) -> None:
        installation.make(ORDERS, DAY, [])
        installation.tick("new_manifests")

    def consume(installation: Installation) -> dict[str, tuple[str, ...]]:
        """What the gate starts; and its result, as far as its record goes."""
        asked = installation.tick("starts").asked
        if DAY in asked:
            installation.make(REPORT, DAY, [FeedInput(ORDERS, DAY, installation.latest(ORDERS, DAY))])
            installation.tick("new_manifests")
        return asked

    before = of_project(desk, ours)
    publish(before)
    assert consume(before) == {DAY: ("report",)}
    cursors = dict(before.cursors)

    after = of_project(desk, theirs)
    assert after.cursors == cursors
    assert consume(after) == {}  # nothing runs again because somebody else makes it
    assert (revision(after, ORDERS), revision(after, REPORT)) == (1, 1)
    publish(after)
    assert consume(after) == {DAY: ("report",)}
    assert (revision(after, ORDERS), revision(after, REPORT)) == (2, 2)
    slot = states_of(after).dataset(ORDERS).slot(DAY)
    assert [each.output.revision for each in states_of(after).quality.consumers(slot)] == [1, 2]


def test_d43_one_monolith_and_three_flows_have_equal_output(desk: Installation, spark: Any):
    def known(rows: DataFrame) -> DataFrame:
        return rows.where("user IS NOT NULL")

    def counted(rows: DataFrame) -> DataFrame:
        return rows.groupBy("user").agg({"orders": "sum"}).toDF("user", "orders")

    def loyal(rows: DataFrame) -> DataFrame:
        return rows.where("orders > 20")

    def assets(days: dg.DailyPartitionsDefinition) -> Sequence[Any]:
        @dg.asset(partitions_def=days, metadata=fa.feed_metadata(ORDERS, SCHEMA), io_manager_key=IO)
        def orders() -> DataFrame:
            user = "IF(id % 7 = 0, NULL, concat('u', id % 10)) AS user"
            return spark.range(100).selectExpr(user, "id % 5 AS orders")

        return [
            orders,
            flow("monolith", "monolith/v1.0", days, lambda rows: loyal(counted(known(rows)))),
            flow("known", "known/v1.0", days, known),
            flow("counted", "counted/v1.0", days, counted, reads="known"),
            flow("loyal", "loyal/v1.0", days, loyal, reads="counted"),
        ]

    installation = of_project(desk, assets)
    made = installation.run("orders", day=DAY)
    assert made.success, messages(made)
    started = []
    while True:
        installation.tick("new_manifests")
        tick = installation.tick("starts")
        if not tick.requests:
            break
        started += [key.to_user_string() for each in tick.requests for key in each.asset_selection or ()]
        installation.execute(tick)
    assert sorted(started) == ["counted", "known", "loyal", "monolith"]
    rows, same = (sorted(installation.rows(f"{each}/v1.0", DAY), key=str) for each in ("monolith", "loyal"))
    assert rows == same != []
    one, other = (installation.record(f"{each}/v1.0", DAY).facts.details["digest"] for each in ("monolith", "loyal"))
    assert one == other
