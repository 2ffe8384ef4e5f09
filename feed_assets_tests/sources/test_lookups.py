"""Look-ups: a table beside a source's description adds columns, whichever way the records came in."""

from __future__ import annotations

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.canonical import canonical
from feed_assets.sources.expressions import check_expressions, needed_columns
from feed_assets.sources.loading import load_source
from feed_assets.sources.spec import SpecError

DESCRIPTION = """\
name: shop_ads
kind: ads
format: FORMAT
columns:
  event_time: TIME
  ad_id: ad
  campaign_id: campaign
identity: [id]
lookups: {ads.csv: ad}
growth_threshold_percent: 5
lookback_days: 7
"""
TABLE = 'ad,campaign,"a note"\n1,c1,x\n2,"c,2",\n\n'


@pytest.fixture
def described(tmp_path):
    def load(
        table=TABLE, form="{type: jsonl, columns: [id, time, ad]}", time="to_timestamp(time)", lookups="ads.csv: ad"
    ):
        path = tmp_path / "shop_ads.yaml"
        text = DESCRIPTION.replace("FORMAT", form).replace("TIME", time).replace("ads.csv: ad", lookups)
        path.write_text(text, encoding="utf-8")
        if table is not None:
            (tmp_path / "ads.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
        return load_source(path, KINDS)

    return load


@pytest.mark.parametrize(
    ("form", "ad"),
    [
        ("{type: jsonl, columns: [id, time, ad]}", "string"),
        ("{type: csv, header: true}", "string"),
        ("{type: parquet, columns: {id: string, time: string, ad: bigint}}", "bigint"),
    ],
)
def test_each_record_gets_the_columns_of_its_key_and_none_is_added_or_lost(spark, described, form, ad):
    source = described(form=form)
    rows = [(number, "2019-11-24 12:00:00", number, "f", number) for number in ("1", "2", "3", None)]
    raw = spark.createDataFrame(rows, "id string, time string, ad string, _file string, _line string").selectExpr(
        "id", "time", f"cast(ad AS {ad}) AS ad", "_file", "cast(_line AS bigint)", "cast(NULL AS string) AS _malformed"
    )

    found = canonical(raw, source).select("ad_id", "campaign_id", "_raw", "_unparsable").collect()

    assert sorted((row.ad_id or "", row.campaign_id) for row in found) == [
        ("", None),
        ("1", "c1"),
        ("2", "c,2"),
        ("3", None),
    ]
    assert all("campaign" not in row._raw and row._unparsable is None for row in found)
    assert set(needed_columns(spark, source)) == {"id", "time", "ad"}


def test_a_changed_table_changes_what_processing_makes_and_not_what_has_landed(described):
    before, after = described(), described(TABLE + "3,c3,\n")

    assert before.digest != after.digest
    assert before.landing_digest == after.landing_digest
    assert before.digest == described().digest


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "ads.csv cannot be read as CSV in UTF-8"),
        (b"ad,campaign\n\xff,1\n", "ads.csv cannot be read as CSV in UTF-8"),
        ("", "ads.csv:1: the header takes 'ad' once"),
        ("ad\n1\n", "ads.csv:1: the header takes 'ad' once"),
        ("campaign\n1\n", "ads.csv:1: the header takes 'ad' once"),
        ("ad,time\n1,c\n", "ads.csv:1: the name 'time' is empty or used already"),
        ("ad,_line\n1,c\n", "ads.csv:1: the name '_line' is empty or used already"),
        ("ad,source\n1,c\n", "ads.csv:1: the name 'source' is empty or used already"),
        ("ad,campaign\n1,c\n\n1,d\n", "ads.csv:4: a second row for '1'; keep one"),
        ("ad,campaign\n1\n", "ads.csv:2: 1 fields under a header of 2"),
    ],
)
def test_a_table_that_cannot_be_used_is_named_with_its_line(described, table, message):
    with pytest.raises(SpecError) as error:
        described(table)

    assert f"shop_ads.yaml:9: lookups.ads.csv: {error.value}".count(message) == 1
    assert message in str(error.value)


def test_landing_knows_no_look_ups_and_their_key_must_be_a_column_of_the_partner(spark, described):
    with pytest.raises(SpecError, match=r"yaml:5: columns.event_time: uses a column that is looked up later"):
        check_expressions(spark, described(time="to_timestamp(concat(time, campaign))"))
    with pytest.raises(SpecError, match=r"lookups.ads.csv: there is no column 'item'"):
        check_expressions(spark, described("item,campaign\n1,c\n", lookups="ads.csv: item"))
