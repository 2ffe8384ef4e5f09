"""What the README, the pages of its guide and CONTRIBUTING show works as it is shown."""

import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType, TimestampType

from feed_assets import checks
from feed_assets.ads import KINDS
from feed_assets.assets import cleaned
from feed_assets.io_manager import feed_metadata
from feed_assets.partitions.days import daily
from feed_assets.project import Project
from feed_assets.sources import Kind, Source, load_source
from feed_assets.sources.expressions import check_expressions, event_time
from feed_assets_tests.api_page import PAGE, page
from feed_assets_tests.harness import ads, failed_checks, messages

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "shop"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = {
    path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted((ROOT / ".readme").glob("*.md"))]
}


def _block(language: str, containing: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    (block,) = [each for each in blocks if containing in each]
    return block


def test_the_source_it_shows_is_one_that_loads_and_that_spark_takes(spark, tmp_path):
    path = tmp_path / "exchange_ads.yaml"
    path.write_text(_block("yaml", "name: exchange_ads"), encoding="utf-8")

    source = load_source(path, KINDS)
    check_expressions(spark, source)
    records = spark.createDataFrame([("20131021192300738",)], "ts string")
    (read,) = records.select(event_time(records, source).cast("string")).first()

    assert source.key == "ads/exchange_ads"
    assert read == "2013-10-21 17:23:00.738"


def test_the_asset_and_the_audit_it_shows_run(shop):
    shop.land(ads(3))
    assert shop.run("clean_ads").success
    schema = StructType([StructField("user_id", StringType()), StructField("ads", LongType())])
    names = {
        "dg": dg,
        "checks": checks,
        "DataFrame": DataFrame,
        "feed_metadata": feed_metadata,
        "days": daily(shop.settings),
        "SCHEMA": schema,
        "count_ads_by_user": lambda shown: shown.groupBy("user_id").agg(functions.count("*").alias("ads")),
    }
    exec(_block("python", "def ads_by_user"), names)
    exec(_block("python", "ads_by_user_audit"), names)
    mine = shop.with_assets(*shop.definitions.assets, names["ads_by_user"], checks=[names["ads_by_user_audit"]])

    result = mine.run("ads_by_user")

    assert result.success, messages(result)
    assert failed_checks(result) == []
    assert len(mine.rows("ads-by-user/v1.0")) == 3


def test_the_project_it_shows_loads_with_its_raw_data_and_both_sensors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/web_orders.yaml").write_text((EXAMPLE / "shop/sources/web_orders.yaml").read_text())
    columns = {"order_id": StringType(), "event_time": TimestampType(), "amount": DecimalType(12, 2)}
    others = {"product_id": StringType(), "currency": StringType(), "source": StringType()}
    schema = StructType([StructField(name, type_, nullable=False) for name, type_ in (columns | others).items()])
    names = {
        "CLEAN_ORDERS": schema,
        "judge_orders": lambda _context, records, _day, _earlier: records,
        **{each.__name__: each for each in (Kind, Path, Project, cleaned, date, feed_metadata)},
        "checks": checks,
    }

    exec(_block("python", "project.definitions"), names)

    definitions = names["defs"]
    dg.Definitions.validate_loadable(definitions)
    keys = {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}
    assert keys == {"clean_orders", "late_data_reports", "raw/orders/web_orders"}
    assert {"late_growth", "new_manifests"} <= {sensor.name for sensor in definitions.sensors}
    project, clean = names["project"], names["clean_orders"]
    metadata = feed_metadata("again/v1.0", schema)
    again = cleaned(
        "again",
        names["ORDERS"],
        project.sources,
        project.days,
        names["judge_orders"],
        metadata=metadata,
        description=".",
    )
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="again reads raw data of the kind orders"):
        project.definitions(assets=[clean, again], asset_checks=[names["audit"]])
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"clean_orders is audited, but has no audit"):
        project.definitions(assets=[clean])
    kind, judge = names["ORDERS"], names["judge_orders"]
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"hourly: records are cleaned day by day"):
        cleaned("hourly", kind, project.sources, project.hours, judge, metadata=metadata, description=".")
    for location in ("", "../orders/v1.0", "/orders/v1.0", "s3://bucket/orders/v1.0"):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match="A feed's location is a path below the base"):
            feed_metadata(location, schema)


def _sections(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_make_target_it_names_exists():
    code = [each for text in PAGES.values() for each in re.findall(r"```.*?```|`[^`]+`", text, flags=re.DOTALL)]
    named = set(re.findall(r"make (\w+)", " ".join(code)))
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert named <= {line.split("\t")[0] for line in listed.splitlines()}


def test_every_picture_and_page_and_section_that_a_page_links_to_is_there():
    for path, text in PAGES.items():
        for target in re.findall(r"\]\(([^)]+)\)", text):
            file, _, section = target.partition("#")
            linked = (path.parent / file).resolve() if file else path
            assert linked.exists(), f"{path}: {target}"
            assert not section or section in _sections(PAGES[linked]), f"{path}: {target}"


def test_the_readme_links_to_each_page_of_its_guide():
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)#]+)\)", README)}

    assert set(PAGES) - linked == {ROOT / "README.md"}


def test_the_table_of_a_source_has_each_field_and_what_it_is_without_it():
    rows = README.partition("## How to add a source")[2].partition("\n## ")[0]
    defaults = {
        name: default.strip()
        for names, default in re.findall(r"^\| (`[^|]+) \|.*\|([^|]*)\|$", rows, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }

    # Costs take the place of the percentage, and are described with the monitor.
    assert set(defaults) == set(Source.model_fields) - {"growth_threshold"}
    required = {name for name, field in Source.model_fields.items() if field.is_required()}
    assert {name for name, default in defaults.items() if not default} == required


def test_the_page_of_the_api_is_what_the_docstrings_of_all_exports_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "Run `python -m feed_assets_tests.api_page`."


def test_the_table_of_rooms_has_the_order_of_the_imports():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = CONTRIBUTING.partition("## Where things are")[2].partition("\n## ")[0].splitlines()

    listed = [name for row in rows for name in re.findall(r"`(\w+)(?:/|\.py)`", "".join(row.split("|")[2:3]))]

    assert listed == re.findall(r"feed_assets\.(\w+)", " ".join(layers))


def test_imports_point_down_the_rooms():
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
