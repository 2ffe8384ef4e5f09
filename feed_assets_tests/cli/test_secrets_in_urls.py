"""A URL with a password, wherever a command takes one: it is refused, and the password is not shown."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from feed_assets.engine.buckets import UnfitStoreError, bucket_settings
from feed_assets.engine.session import MasterError, check_master
from feed_assets.notices.mail import MailError, MailServer
from feed_assets.resources.settings import Settings, SettingsError
from feed_assets.resources.storage import BlackboardResource
from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import WarehouseError
from feed_assets_tests.cli.conftest import Program, Run

SECRET = "tiger+in"
BASE = f"s3://AKIAID:12/{SECRET}@bucket/base"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("BASE", "SOURCES", "STATE", "WAREHOUSE", "MODULE"):
        monkeypatch.setenv(f"FEED_ASSETS_{name}", "")


@pytest.mark.parametrize(
    "command",
    [
        "feeds URL",
        "feed history URL",
        "feed latest URL -p 2019-11-24",
        "feed verify URL",
        "feed publish URL file.csv",
        "feed publish feed URL",
        "land ads URL",
        "sources try ads URL",
        "report --csv URL",
        "-m URL doctor",
    ],
)
def test_an_argument_with_a_password_is_refused_and_not_shown(run: Run, tmp_path: Path, command: str):
    (tmp_path / "file.csv").write_text("a\n1\n")
    words = [BASE if word == "URL" else word for word in command.split()]
    result = run(*words, code=None)
    assert result.exit_code in {1, 2}, result.output
    assert SECRET not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("variable", ["BASE", "STATE", "WAREHOUSE", "CATALOG", "SPARK_MASTER", "SMTP", "ALERT_WEBHOOK"])
@pytest.mark.parametrize("url", [BASE, f"ftp://user:{SECRET}@host/x", f"postgresql://u:1/{SECRET}@host/x"])
def test_a_variable_with_a_password_is_refused_and_not_shown(run: Run, monkeypatch, variable: str, url: str):
    monkeypatch.setenv(f"FEED_ASSETS_{variable}", url)
    result = run("doctor", code=None)
    assert result.exit_code == 1, result.output
    assert SECRET not in result.output
    assert f"FEED_ASSETS_{variable}" in result.output


@pytest.mark.slow
def test_a_base_of_env_with_a_password_is_refused_and_not_shown(program: Program, tmp_path: Path):
    (tmp_path / ".env").write_text(f"FEED_ASSETS_BASE={BASE}\n")
    for words in (["feeds"], ["explain", "2019-11-24"], ["demo"]):
        ran = program(*words)
        assert ran.returncode in {1, 2}, ran.stderr
        assert "not shown, because it may contain a secret" in " ".join(ran.stderr.split())
        assert SECRET not in ran.stdout + ran.stderr
        assert "Traceback" not in ran.stderr


def test_dagster_never_gets_to_show_a_base_with_a_password(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A_BASE", BASE)

    @dg.asset
    def an_asset(blackboard: BlackboardResource) -> None:
        del blackboard

    with pytest.raises(ValueError, match="not shown") as raised:
        BlackboardResource(base=BASE)
    resources = {"blackboard": BlackboardResource(base=dg.EnvVar("A_BASE"))}
    with dg.DagsterInstance.ephemeral() as instance:
        ran = dg.materialize([an_asset], instance=instance, resources=resources, raise_on_error=False)
        events = repr(instance.all_logs(ran.run_id))
    assert not ran.success
    assert "not shown, because it may contain a secret" in events
    assert SECRET not in str(raised.value) + events


def test_other_rooms_refuse_such_urls_too_and_do_not_show_them():
    class Client:
        class meta:  # noqa: N801 - of boto3
            endpoint_url = f"http://user:{SECRET}@127.0.0.1:1"
            region_name = "us-east-1"

    for refuse, argument, error in (
        (bucket_settings, Client, UnfitStoreError),
        (check_master, f"k8s://https://user:{SECRET}@host:1", MasterError),
        (MailServer.at, f"smtps://user:12/{SECRET}@host:465", MailError),
        (open_warehouse, f"snowflake://user:12/{SECRET}@account/database", WarehouseError),
        (lambda base: Settings.from_environment({"FEED_ASSETS_BASE": base}), BASE, SettingsError),
    ):
        with pytest.raises(error) as raised:
            refuse(argument)
        assert SECRET not in str(raised.value)
