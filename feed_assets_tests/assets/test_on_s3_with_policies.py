"""Spark in a bucket in which users may do only what the policies of `deploy` allow, on versitygw with its users."""

from __future__ import annotations

from pathlib import Path

import pytest

from feed_assets.engine.update_files import count_update
from feed_assets.file_feed import Feed, require_latest
from feed_assets_tests.harness import ADS, ALL, DAY, EFFECTIVENESS, ad, ads, click, messages
from feed_assets_tests.servers.versitygw import VersitygwWithUsers

POLICIES = Path(__file__).parents[2] / "deploy/policies"


@pytest.fixture
def server(tmp_path):
    server = VersitygwWithUsers(tmp_path / "server")
    server.start()
    server.client().create_bucket(Bucket="shared")
    yield server
    server.kill()


@pytest.fixture
def become(server, use_environment):
    """Uses the bucket as a new user with a policy of this name, below `team/base`."""

    def become(role):
        policy = (POLICIES / f"{role}.json").read_text().replace("BUCKET", "shared").replace("PREFIX", "team/base")
        use_environment(server.environment_of(role, policy))

    return become


@pytest.fixture
def bucket(become):
    """Where `shop_in_a_bucket` has its base."""
    become("writer")
    return "s3://shared/team"


def test_a_writer_processes_a_day_again_and_a_reader_reads_it(shop_in_a_bucket, deliver, session, server, become):
    shop = shop_in_a_bucket
    deliver("ads", ads(20))
    deliver("clicks", [click("c1", impression="i3")])
    first = shop.run(*ALL)
    assert first.success, messages(first)
    deliver("ads", [ad("late", f"{DAY} 23:59:59")], "late.csv")
    (repaired,) = shop.execute(shop.tick("late_growth"))
    assert repaired.success, messages(repaired)

    become("reader")
    assert shop.record(ADS).facts.rows.published == 21
    update = require_latest(Feed(shop.board, EFFECTIVENESS), DAY, now=shop.now)
    assert count_update(session, update) == 1
    refused = shop.run("clean_ads")
    assert not refused.success
    assert any("AccessDenied" in each for each in messages(refused))
    keys = [each["Key"] for each in server.client().list_objects_v2(Bucket="shared")["Contents"]]
    assert [key for key in keys if not key.startswith("team/base/")] == []
