"""The same results by hand-written SQL on DuckDB: what one machine can do where nothing else is asked for.

Here: SQL for one known partner. Not here: sources that are described by a file, accounting, publishing.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import duckdb

Z = 1.959963984540054
"""The standard normal deviate of a 95 % interval."""

SENT = """
CREATE OR REPLACE TEMP TABLE sent_{kind} AS
SELECT
    {sent},
    CASE
        WHEN _malformed IS NOT NULL THEN 'malformed line'
        WHEN event_time IS NULL AND time IS NOT NULL THEN 'unparsable event_time'
        WHEN event_time IS NULL THEN 'missing event_time'
        WHEN event_time < '{day}' OR event_time >= '{next}' THEN 'event_time outside the day'
        WHEN trim(coalesce(ad, '')) = '' THEN 'missing ad_id'
        WHEN trim(coalesce({identity}, '')) = '' THEN 'missing id'
        {more}
    END AS reason,
    _file, _line, _malformed
FROM (
    SELECT {nulled}, try_cast(nullif_token(time) AS TIMESTAMP) AS event_time, _file, _line, _malformed
    FROM read_parquet([{files}])
)
"""

PUBLISHED_ADS = """
CREATE OR REPLACE TEMP TABLE ads AS
SELECT
    impression AS impression_id, event_time, ad AS ad_id, campaign AS campaign_id, "user" AS user_id,
    placement AS placement_id, try_cast(cost AS DECIMAL(18, 6)) AS cost, 'portal_ads' AS source
FROM sent_ads
WHERE reason IS NULL
QUALIFY row_number() OVER (PARTITION BY impression ORDER BY event_time, _file, _line) = 1
"""

PUBLISHED_CLICKS = """
CREATE OR REPLACE TEMP TABLE clicks AS
WITH delivered AS (
    SELECT * FROM sent_clicks
    WHERE reason IS NULL
    QUALIFY row_number() OVER (PARTITION BY click ORDER BY event_time, _file, _line) = 1
),
bursts AS (
    SELECT *, event_time - lag(event_time) OVER (PARTITION BY "user", ad ORDER BY event_time, click) AS since
    FROM delivered
)
SELECT
    click AS click_id, event_time, impression AS impression_id, ad AS ad_id, "user" AS user_id,
    'portal_clicks' AS source
FROM bursts
WHERE "user" IS NULL OR since IS NULL OR since > INTERVAL 1 SECOND
"""

EFFECTIVENESS = """
CREATE OR REPLACE TEMP TABLE effectiveness AS
WITH named AS (
    SELECT shown.impression_id, clicked.event_time AS clicked_at, shown.shown_at,
        coalesce(shown.ad_id, clicked.ad_id) AS ad_id
    FROM clicks AS clicked
    LEFT JOIN (
        SELECT impression_id, min(event_time) AS shown_at, arg_min(ad_id, event_time) AS ad_id
        FROM ads GROUP BY impression_id
    ) AS shown USING (impression_id)
    WHERE clicked.impression_id IS NOT NULL
),
unnamed AS (
    SELECT shown.impression_id, clicked.event_time AS clicked_at, shown.event_time AS shown_at, clicked.ad_id
    FROM (SELECT * FROM clicks WHERE impression_id IS NULL) AS clicked
    ASOF LEFT JOIN ads AS shown
        ON clicked.user_id = shown.user_id AND clicked.ad_id = shown.ad_id AND clicked.event_time >= shown.event_time
),
per_impression AS (
    SELECT ad_id, impression_id, shown_at, min(clicked_at) AS first, count(*) AS today
    FROM (FROM named UNION ALL FROM unnamed)
    GROUP BY ad_id, CASE WHEN shown_at IS NOT NULL THEN impression_id END, shown_at, impression_id
),
clicks_of AS (
    SELECT
        ad_id,
        count(shown_at) AS clicks,
        coalesce(sum(today) FILTER (shown_at IS NOT NULL), 0) - count(shown_at) AS repeat_clicks,
        coalesce(sum(today) FILTER (shown_at IS NULL), 0) AS orphan_clicks,
        median(greatest(epoch(first - shown_at), 0)) FILTER (shown_at IS NOT NULL) AS median_seconds_to_click
    FROM per_impression GROUP BY ad_id
),
impressions_of AS (
    SELECT ad_id, count(*) AS impressions, count(DISTINCT user_id) AS users, sum(cost) AS cost
    FROM ads GROUP BY ad_id
),
campaigns AS (
    SELECT ad_id, arg_min(campaign_id, (-shown, campaign_id)) AS campaign_id
    FROM (
        SELECT ad_id, campaign_id, count(*) AS shown FROM ads WHERE campaign_id IS NOT NULL GROUP BY ad_id, campaign_id
    )
    GROUP BY ad_id
),
per_ad AS (
    SELECT
        ad_id, campaign_id, coalesce(impressions, 0) AS impressions, coalesce(users, 0) AS users,
        coalesce(clicks, 0) AS clicks, cost, median_seconds_to_click,
        coalesce(repeat_clicks, 0) AS repeat_clicks, coalesce(orphan_clicks, 0) AS orphan_clicks
    FROM impressions_of FULL JOIN clicks_of USING (ad_id) LEFT JOIN campaigns USING (ad_id)
)
SELECT
    ad_id, campaign_id, NULL::VARCHAR AS advertiser, NULL::VARCHAR AS landing_page, impressions, users, clicks,
    0::BIGINT AS clicks_next_day,
    clicks / nullif(impressions, 0) AS ctr,
    (clicks + {z}^2 / 2 - {z} * sqrt(clicks * (1 - ctr) + {z}^2 / 4)) / (impressions + {z}^2) AS ctr_low,
    (clicks + {z}^2 / 2 + {z} * sqrt(clicks * (1 - ctr) + {z}^2 / 4)) / (impressions + {z}^2) AS ctr_high,
    cost, cost / nullif(clicks, 0) AS cost_per_click, median_seconds_to_click,
    repeat_clicks, 0::BIGINT AS previous_day_clicks, orphan_clicks
FROM per_ad
"""

ADS_COLUMNS = ("impression", "time", "ad", "campaign", "user", "placement", "cost")
CLICKS_COLUMNS = ("click", "time", "impression", "ad", "user")
COST_RULES = """
        WHEN cost IS NOT NULL AND try_cast(cost AS DECIMAL(18, 6)) IS NULL THEN 'unparsable cost'
        WHEN try_cast(cost AS DECIMAL(18, 6)) < 0 THEN 'negative cost'
"""


def run(base: Path, day: date, output: Path, *, threads: int) -> None:
    """The same files as the other two write, each below `output`, from a day that has no neighbours."""
    output.mkdir(parents=True)
    with duckdb.connect(config={"threads": threads}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE MACRO nullif_token(x) AS CASE WHEN x NOT IN ('', 'null', 'Na') THEN x END")
        _sent(connection, base, "ads", ADS_COLUMNS, day, COST_RULES)
        _sent(connection, base, "clicks", CLICKS_COLUMNS, day, "")
        for statement in (PUBLISHED_ADS, PUBLISHED_CLICKS, EFFECTIVENESS.format(z=Z)):
            connection.execute(statement)
        for kind, columns in (("ads", ADS_COLUMNS), ("clicks", CLICKS_COLUMNS)):
            record = ", ".join(f'{name} := "{name}"' for name in columns)
            connection.execute(
                f"COPY (SELECT event_time, _file AS file, _line AS line, reason, "
                f"coalesce(_malformed, to_json(struct_pack({record}))::VARCHAR) AS record "
                f"FROM sent_{kind} WHERE reason IS NOT NULL) TO '{output}/{kind}-quarantine.json' (FORMAT json)"
            )
        for table in ("ads", "clicks", "effectiveness"):
            connection.execute(f"COPY {table} TO '{output}/{table}.parquet' (FORMAT parquet)")


def _sent(
    connection: duckdb.DuckDBPyConnection, base: Path, kind: str, columns: tuple[str, ...], day: date, more: str
) -> None:
    files = sorted((base / "raw" / kind / f"portal_{kind}" / str(day)).rglob("*.parquet"))
    connection.execute(
        SENT.format(
            kind=kind,
            sent=", ".join(f'"{name}"' for name in columns) + ", event_time",
            nulled=", ".join(f'nullif_token("{name}") AS "{name}"' for name in columns),
            identity=f'"{columns[0]}"',
            more=more,
            day=day,
            next=day + timedelta(days=1),
            files=", ".join(f"'{file}'" for file in files),
        )
    )
