"""Examples, links and commands in README, docs/ and CONTRIBUTING work as they are shown."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType, TimestampType

import feed_assets as fa
from feed_assets.ads.schemas import KINDS
from feed_assets.cli.main import main
from feed_assets.delivery.destination import Destination
from feed_assets.partitions.days import daily
from feed_assets.sources.expressions import check_expressions, event_time
from feed_assets.sources.formats import DelimitedFormat, JsonLinesFormat, ParquetFormat
from feed_assets.sources.poll_spec import Poll
from feed_assets.sources.thresholds import GrowthCosts
from feed_assets_tests import ROOT
from feed_assets_tests.harness import ads, failed_checks, messages
from feed_assets_tests.reference.pages import problems
from feed_assets_tests.reference.sources import described

EXAMPLE = ROOT / "examples" / "shop"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "deploy/README.md")), *DOCS.rglob("*.md")]
}
SETTINGS = re.compile(r"FEED_ASSETS_(?:[A-Z]+_)*[A-Z]+(?![A-Z_<])")
BY_OPTION = {f"FEED_ASSETS_{each}" for each in ("RECEIVE", "RECEIVE_PORT", "SERVE", "SERVE_PORT", "WORKFLOW")}
"""Names of options of commands, such as FEED_ASSETS_SERVE_<OPTION>, which the page of settings has once."""
NO_SETTINGS = {"FEED_ASSETS_JRE"}
"""A variable by which processes of the package tell each other something."""


def _block(language: str, containing: str) -> str:
    blocks = (re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL) for text in PAGES.values())
    (block,) = {each for found in blocks for each in found if containing in each}
    return block


def test_the_source_it_shows_is_one_that_loads_and_that_spark_takes(spark, tmp_path):
    path = tmp_path / "exchange_ads.yaml"
    path.write_text(_block("yaml", "name: exchange_ads"), encoding="utf-8")

    source = fa.load_source(path, KINDS)
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
        "fa": fa,
        "DataFrame": DataFrame,
        "project": SimpleNamespace(days=daily(shop.settings)),
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
    names = {"CLEAN_ORDERS": schema, "judge_orders": lambda _context, records, _day, _earlier: records}

    exec(_block("python", "defs = project.definitions"), names)

    definitions = names["defs"]
    dg.Definitions.validate_loadable(definitions)
    keys = {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}
    assert keys == {"clean_orders", "late_data_reports", "raw/orders/web_orders"}
    assert {"late_growth", "new_manifests"} <= {sensor.name for sensor in definitions.sensors}
    project, clean = names["project"], names["clean_orders"]
    metadata = fa.feed_metadata("again/v1.0", schema)
    again = fa.cleaned(
        "again",
        names["ORDERS"],
        project.sources,
        project.days,
        names["judge_orders"],
        metadata=metadata,
        description=".",
    )
    audit = fa.checks.audit(clean, names["expected"])
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="again reads raw data of the kind orders"):
        project.definitions(assets=[clean, again], asset_checks=[audit])
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"clean_orders is audited, but has no audit"):
        project.definitions(assets=[clean])
    kind, judge = names["ORDERS"], names["judge_orders"]
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"hourly: records are cleaned day by day"):
        fa.cleaned("hourly", kind, project.sources, project.hours, judge, metadata=metadata, description=".")
    for location in ("", "../orders/v1.0", "/orders/v1.0", "s3://bucket/orders/v1.0"):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match="A feed's location is a path below the base"):
            fa.feed_metadata(location, schema)


def test_the_delivery_it_shows_goes_from_an_update_to_a_lookup(tmp_path, monkeypatch):
    package = tmp_path / "delivering_shop"
    shutil.copytree(EXAMPLE / "shop", package)
    (package / "deliveries").mkdir()
    (package / "deliveries/prices.yaml").write_text(_block("yaml", "name: prices"), encoding="utf-8")
    definitions = package / "definitions.py"
    before, assembly, after = definitions.read_text(encoding="utf-8").partition("defs = project.definitions(")
    after = after.replace("revenue],", "revenue, delivery],")
    definitions.write_text(before + _block("python", "fa.delivered(revenue") + assembly + after, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, value in {"MODULE": "delivering_shop.definitions", "BASE": "data", "FIRST_DAY": "2024-01-01"}.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", value)
    rows = {
        "product_id": ["p1", "p2"],
        "name": ["Teapot", "Kettle"],
        "orders": [16, 8],
        "euros": [Decimal("126.00")] * 2,
    }
    pq.write_table(pa.table(rows), tmp_path / "revenue.parquet")
    feed = fa.open_feed(str(tmp_path / "data/revenue/v1.0"))
    published = [tmp_path / "revenue.parquet"]
    fa.publish_files(feed, "2024-01-01", published, now=datetime(2024, 1, 2, tzinfo=UTC), owner="t")

    shown = []
    for line in re.findall(r"^feed-assets (deliver .*)$", PAGES[DOCS / "delivery.md"], flags=re.MULTILINE):
        command = line.partition("#")[0].split()
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, (command, done.output, done.exception)
        shown.append(done.stdout)

    assert "2 puts, 0 deletes of 20240102.000000; 2 acknowledged." in shown[0]
    assert shown[1] == "2 records settled.\n"
    assert shown[2].splitlines()[:2] == ["product_id  p1", "name        Teapot"]
    assert shown[3].splitlines()[1].split()[2:] == ["settled", "2", "2", "2", "2", "0", "0"]

    (tmp_path / "shop").symlink_to(package)
    names = {}
    exec(_block("python", "load_destination("), names)
    assert names["delivery"] is None
    exec(_block("python", "Lookups.of("), names)
    assert names["found"].row == {"product_id": "p1", "name": "Teapot", "orders": 16, "euros": "126.00"}
    exec(_block("python", "delivery.Client("), names)
    assert names["future"].result().shard.startswith("shardId-")
    exec(_block("python", "def in_two_currencies("), names)
    record = fa.delivery.Record("put", ("p1",), names["found"].row)
    assert [each[1].row for each in names["in_two_currencies"](record)][1] == {"cents": 12600}


def test_the_reader_without_the_library_finds_the_latest_update_and_its_files(tmp_path):
    names = {}
    exec(_block("python", "def latest(partition"), names)
    feed = fa.open_feed(str(tmp_path / "rates"))
    written = []
    for hour in (1, 2, 3):
        file = tmp_path / f"{hour}.csv"
        file.write_text(str(hour))
        now = datetime(2024, 1, 2, hour, tzinfo=UTC)
        written.append(fa.publish_files(feed, "2024-01-01", [file], now=now, owner="t"))
    fa.file_feed.invalidate(feed, "2024-01-01", written[-1].name, reason="wrong", author="t", now=now)

    (found,) = names["latest"](tmp_path / "rates/2024-01-01")

    assert (found.name, found.read_text()) == ("2.csv", "2")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LookupError, match="no valid update"):
        names["latest"](tmp_path / "empty")


def test_the_command_of_ones_own_prints_the_files_of_a_day(tmp_path, monkeypatch):
    monkeypatch.setenv("FEED_ASSETS_BASE", str(tmp_path / "base"))
    names = {}
    exec(_block("python", "# shop/files.py"), names)
    exec(_block("python", "# shop/commands.py"), names)
    assert names["COMMANDS"].keys() == {names["files"].name}
    (tmp_path / "revenue.csv").write_text("1")
    feed = fa.open_feed(str(tmp_path / "base/revenue/v1.0"))
    fa.publish_files(feed, "2024-01-01", [tmp_path / "revenue.csv"], now=datetime(2024, 1, 2, tzinfo=UTC), owner="t")

    done = CliRunner().invoke(names["files"], ["2024-01-01"])
    as_json = CliRunner().invoke(names["files"], ["2024-01-01", "--json"])
    none = CliRunner().invoke(names["files"], ["2024-01-02"])

    (uri,) = json.loads(as_json.output)
    assert uri.endswith("/revenue.csv")
    assert done.output.splitlines() == ["file", uri]
    assert isinstance(none.exception, fa.FeedAssetsError)


def test_every_name_of_the_package_that_a_page_shows_exists():
    for path, text in PAGES.items():
        for dotted in set(re.findall(r"\bfa\.((?:checks\.|cli\.|file_feed\.)?\w+)", text)):
            assert attrgetter(dotted)(fa) is not None, f"{path}: fa.{dotted}"


def test_every_example_in_python_is_python():
    for text in PAGES.values():
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            ast.parse(block.replace("..., ...", "..."))


def test_every_make_target_that_a_page_names_exists():
    code = [each for text in PAGES.values() for each in re.findall(r"```.*?```|`[^`]+`", text, flags=re.DOTALL)]
    named = set(re.findall(r"make (\w+)", " ".join(code)))
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert named <= {line.split("\t")[0] for line in listed.splitlines()}


def test_every_command_that_a_page_names_exists():
    reference = PAGES[DOCS / "reference/commands.md"]
    commands = set(re.findall(r"^#+ `feed-assets ([\w -]+)`$", reference, flags=re.MULTILINE))
    groups = {each for each in commands if any(other.startswith(f"{each} ") for other in commands)}
    code = [each for text in PAGES.values() for each in re.findall(r"```.*?```|`[^`]+`", text, flags=re.DOTALL)]
    named = re.findall(r"feed-assets(?: --module \S+)? ([a-z]+)(?: ([a-z]+))?", " ".join(code))

    unknown = {first for first, _ in named} - commands - {"files"}  # the page about commands of one's own adds it
    unknown |= {f"{first} {second}" for first, second in named if first in groups and second} - commands
    assert unknown == set()


def _sections(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_picture_and_page_and_section_that_a_page_links_to_is_there():
    for path, text in PAGES.items():
        for target in re.findall(r"\]\(([^)]+)\)", text):
            if target.startswith("https://"):
                continue
            file, _, section = target.partition("#")
            linked = (path.parent / file).resolve() if file else path
            assert linked.exists(), f"{path}: {target}"
            assert not section or section in _sections(PAGES[linked]), f"{path}: {target}"


def test_the_readme_is_short_and_links_to_every_page():
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)#]+)\)", README)}

    assert len(README.split()) <= 1200
    assert set(DOCS.rglob("*.md")) - linked == {DOCS / "index.md"}


@pytest.mark.parametrize(
    "model", [fa.Source, DelimitedFormat, JsonLinesFormat, ParquetFormat, Poll, GrowthCosts, Destination]
)
def test_every_field_of_a_source_has_a_description(model):
    assert described(model).keys() == model.model_fields.keys()


def test_the_page_of_settings_has_every_variable_that_the_package_reads():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "feed_assets").rglob("*.py"))
    listed = set(SETTINGS.findall(PAGES[DOCS / "reference/settings.md"]))

    assert set(SETTINGS.findall(text)) - listed == BY_OPTION | NO_SETTINGS
    assert {
        name for name in listed if name not in text and f'"{name.removeprefix("FEED_ASSETS_")}"' not in text
    } == set()


def test_generated_pages_are_up_to_date_and_every_page_is_in_the_navigation():
    assert list(problems()) == []


def test_the_documentation_has_no_broken_link(tmp_path):
    builder = Path(sys.executable).parent / "zensical"
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)

    done = subprocess.run([builder, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "monitor" in (tmp_path / "build/docs/search.json").read_text(encoding="utf-8")


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
