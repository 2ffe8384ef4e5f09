"""Unusual data and deeper checks: what is marked, what waits, what goes on, and what Dagster shows."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession

import feed_assets as fa
from feed_assets import checks
from feed_assets.dependencies.quality.marks import Author, QualityState
from feed_assets.dependencies.service import Dependencies
from feed_assets.project.assembly import Project
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import Installation, Tick, messages

ORDERS, CAREFUL, CAREFREE = "orders/v1.0", "careful/v1.0", "carefree/v1.0"
SUNDAYS = ["2019-10-20", "2019-10-27", "2019-11-03", "2019-11-10", "2019-11-17"]
SUNDAY = "2019-11-24"
BAD, BACKFILLED, PASSED, UNCHECKED = QualityState
GOOD_ROWS, FEW_ROWS = 200, 20
BOTS = "IF(id % 2 = 0, 'bot', concat('u', id)) AS user"
PEOPLE = "concat('u', id) AS user"


class Shop:
    """An installation with orders, and two flows that read them; `rows` and `user` say what orders a run makes."""

    def __init__(self, installation: Installation, spark: SparkSession) -> None:
        self.rows, self.user, self.spark = GOOD_ROWS, PEOPLE, spark
        settings = replace(installation.settings, first_day=date(2019, 10, 1), as_of=datetime(2019, 11, 26, tzinfo=UTC))
        self.project = Project(settings, ())
        self.installation = replace(installation, settings=settings, _definitions=self._definitions())

    def _definitions(self) -> dg.Definitions:
        days = self.project.days
        schema = self.spark.sql(f"SELECT id, {PEOPLE} FROM range(1)").schema
        shop = self

        def flow(name: str, location: str, **trigger: Any) -> dg.AssetsDefinition:
            @dg.asset(
                name=name,
                ins={"orders": dg.AssetIn(input_manager_key="file_feed")},
                partitions_def=days,
                io_manager_key="file_feed",
                metadata={**fa.feed_metadata(location, schema), **fa.trigger(settle=timedelta(0), **trigger)},
            )
            def made(orders: DataFrame) -> DataFrame:
                return orders

            return made

        @dg.asset(
            partitions_def=days,
            io_manager_key="file_feed",
            metadata=fa.feed_metadata(ORDERS, schema, profiled=True),
        )
        def orders() -> DataFrame:
            return shop.spark.sql(f"SELECT id, {shop.user} FROM range({shop.rows})")

        def few_bots(_: checks.Subject, counted: Any) -> checks.Judgement:
            return checks.Judgement(passed=counted["bots"] == 0, observed={"bots": counted["bots"]})

        no_bots = checks.Expectation(
            "no_bots", "No order is of a bot.", judge=few_bots, counts={"bots": "count_if(user = 'bot')"}
        )
        return self.project.definitions(
            assets=[orders, flow("careful", CAREFUL), flow("carefree", CAREFREE, quality="any")],
            asset_checks=[checks.deeper(orders, [no_bots])],
        )

    def make(self, day: str, *, rows: int = GOOD_ROWS, user: str = PEOPLE) -> dg.ExecuteInProcessResult:
        """Make the orders of a day, and let the sensors know."""
        self.rows, self.user = rows, user
        made = self.installation.run("orders", day=day)
        assert made.success, messages(made)
        self.installation.tick("new_manifests")
        return made

    def look(self) -> Tick:
        """A tick of the sensor that requests deeper checks, and the checks that it asked for."""
        tick = self.installation.tick("slot_quality")
        for request in tick.requests:
            (key,) = request.asset_check_keys
            self.installation.check(key.asset_key.to_user_string(), request.partition_key, key.name)
        return tick

    @property
    def states(self) -> Dependencies:
        definitions = self.installation.definitions
        flows = Flows.of(AssetFeedGraph.of(definitions.get_repository_def()), (), date(2019, 10, 1))
        states = flows.states(self.installation.store, self.installation.board)
        states.refresh()
        return states

    def state(self, feed: str, day: str = SUNDAY) -> QualityState:
        return self.states.quality.answer(self.states.dataset(feed).slot(day)).state

    def start(self) -> set[str]:
        """A tick of the gate, and the runs on this Sunday that it asked for."""
        tick = self.installation.tick("starts")
        self.installation.execute(tick)
        self.installation.tick("new_manifests")
        asked = (each for each in tick.requests if each.partition_key == SUNDAY)
        return {key.to_user_string() for each in asked for key in each.asset_selection or ()}

    def observed(self, asset: str) -> list[tuple[str, str]]:
        """What Dagster has on this Sunday, oldest first: the quality and its reason."""
        records = self.installation.instance.fetch_observations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[SUNDAY]), limit=100
        ).records
        found = [record.asset_observation.metadata for record in reversed(records) if record.asset_observation]
        return [(str(each["quality"].value), str(each["why"].value)) for each in found]


@pytest.fixture
def orders(desk: Installation, spark: SparkSession) -> Shop:
    """A shop with orders of five Sundays."""
    shop = Shop(desk, spark)
    for day in SUNDAYS:
        shop.rows = GOOD_ROWS + int(day[-1])
        assert shop.installation.run("orders", day=day).success
    shop.installation.tick("new_manifests")
    shop.look()
    return shop


def test_d33_an_unusual_profile_runs_the_deeper_check_whose_failure_marks_the_slot(orders: Shop):
    made = orders.make(SUNDAY, rows=FEW_ROWS, user=BOTS)
    assert not made.get_asset_check_evaluations()  # deeper checks run on demand
    profile = orders.states.quality.profile(orders.states.dataset(ORDERS).slot(SUNDAY))
    assert profile is not None
    assert profile.profile.rows == FEW_ROWS
    assert any(each.startswith("rows: 20, usually 2") for each in profile.unusual)

    tick = orders.look()
    assert [(each.partition_key, [key.name for key in each.asset_check_keys]) for each in tick.requests] == [
        (SUNDAY, ["no_bots"])
    ]
    (mark,) = orders.states.quality.marks()
    update = orders.installation.latest(ORDERS, SUNDAY)
    assert (str(mark.author), mark.reason, mark.evidence) == (
        "check no_bots",
        "bots 10",
        f"update {update}: No order is of a bot.",
    )
    assert (orders.state(ORDERS), update is not None) == (BAD, True)

    # Who takes any quality goes on, the other flow waits.
    assert orders.start() == {"carefree"}
    assert (orders.state(CAREFREE), orders.installation.latest(CAREFUL, SUNDAY)) == (BAD, None)

    # Dagster shows it, with the reason.
    orders.look()
    why = f"bots 10 (check no_bots, mark {mark.id})"
    assert (orders.observed("orders"), orders.observed("carefree")) == ([("bad", why)], [("bad", why)])

    # The day is made again: profiled and checked again, and what reads it runs.
    orders.make(SUNDAY)
    assert orders.state(ORDERS) is BACKFILLED
    assert len(orders.look().requests) == 1  # its profile is usual, and the check had marked it
    assert orders.state(ORDERS) is PASSED
    assert orders.start() == {"careful", "carefree"}
    assert [orders.state(feed) for feed in (CAREFUL, CAREFREE)] == [UNCHECKED, BACKFILLED]
    assert orders.look().requests == ()
    assert [quality for quality, _ in orders.observed("orders")] == ["bad", "backfilled"]
    assert [quality for quality, _ in orders.observed("carefree")] == ["bad", "backfilled"]


def test_d38_a_check_that_passes_on_a_new_revision_leaves_the_marks_of_people(orders: Shop):
    orders.make(SUNDAY, rows=FEW_ROWS, user=BOTS)
    orders.look()
    slot = orders.states.dataset(ORDERS).slot(SUNDAY)
    by_hand = orders.states.quality.mark(
        slot, reason="too few", author=Author.person("ann"), now=orders.installation.now, mark_id="m1"
    )
    orders.make(SUNDAY, rows=FEW_ROWS + 1)
    orders.states.quality.mark(slot, reason="still few", author=Author.person("ann"), now=orders.installation.now)
    orders.look()
    assert by_hand in orders.states.quality.marks()
    assert (orders.state(ORDERS), [mark.reason for mark in orders.states.quality.answer(slot).marks]) == (
        BAD,
        ["still few"],
    )


def test_an_unusual_profile_whose_deeper_check_passes_holds_nothing_back(orders: Shop):
    orders.make(SUNDAY, rows=FEW_ROWS)
    orders.look()
    assert orders.states.quality.marks() == ()
    assert (orders.state(ORDERS), orders.look().requests) == (PASSED, ())
    assert orders.start() == {"careful", "carefree"}


def test_a_usual_profile_runs_no_check(orders: Shop):
    orders.make(SUNDAY)
    assert orders.look().requests == ()
    assert orders.state(ORDERS) is UNCHECKED


def test_d37_a_mark_is_shown_in_dagster_until_it_goes(orders: Shop):
    orders.make(SUNDAY)
    orders.start()
    slot = orders.states.dataset(ORDERS).slot(SUNDAY)
    mark = orders.states.quality.mark(slot, reason="bots", author=Author.person("ann"), now=orders.installation.now)
    assert {event.asset_key.to_user_string() for event in orders.look().events} == {"orders", "careful", "carefree"}
    assert orders.look().events == ()
    orders.states.quality.unmark(mark.id, reason="none", author=Author.person("ann"), now=orders.installation.now)
    orders.look()
    assert [quality for quality, _ in orders.observed("careful")] == ["bad", "unchecked"]
