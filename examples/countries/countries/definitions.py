"""The revenue of each product on a day, in euros, computed as orders come: a workflow of three stages.

Orders of a file are split by country, converted into euros, and added up. The result of a day is audited and published.
"""

from datetime import date

import dagster as dg
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

import feed_assets as fa

COUNTRIES = ("CH", "FR", "GB")
REVENUE = StructType([StructField("product", StringType(), nullable=False), StructField("euros", DoubleType())])

project = fa.Project.with_sources(fa.Settings.from_environment(first_day=date(2024, 1, 1)), ())


@dg.asset(
    partitions_def=project.days,
    io_manager_key="file_feed",
    metadata=fa.feed_metadata("revenue/v1.0", REVENUE, identity=["product"], audited=True),
)
def revenue() -> None:
    """The revenue of each product on a day, in euros. The workflow makes it."""
    raise dg.Failure("The workflow `revenue` makes this feed: `feed-assets workflow insert split FILE day=DAY`.")


flow = fa.Workflow("revenue")


@flow.stage(version="1")
def split(work: fa.Work) -> None:
    """One task for each country."""
    orders: DataFrame = work.read()
    for country in COUNTRIES:
        work.to(convert, {**work.payload, "country": country}, orders.where(orders.country == country))


@flow.stage(version="1", parameters={"euros": {"CH": 1.05, "FR": 1.0, "GB": 1.18}})
def convert(work: fa.Work) -> None:
    """The amounts of a country in euros. The task of the day waits for all countries."""
    rate = work.parameters["euros"][work.payload["country"]]
    orders: DataFrame = work.read()
    in_euros = orders.select("product", (functions.col("amount") * rate).alias("euros"))
    work.to(total, {"day": work.payload["day"]}, in_euros, bundle=(work.origin, len(COUNTRIES)))


@flow.publishes(revenue, version="1")
def total(work: fa.Work) -> DataFrame:
    """The revenue of each product. What this returns is audited, and published as the day of the payload."""
    rows: DataFrame = work.read()
    return rows.groupBy("product").agg(functions.sum("euros").alias("euros"))


defs = project.definitions(
    assets=[revenue],
    asset_checks=[fa.checks.audit(revenue, [fa.checks.not_empty(), fa.checks.unique("product")])],
    workflows=[flow],
)
