"""The settings of an installation: names, defaults, and what is said of values that cannot be used."""

from __future__ import annotations

import traceback
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pydantic import Field

from feed_assets.blackboard.location import local_directory
from feed_assets.environment import Section
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed import parse_time
from feed_assets.resources.settings import Settings, SettingsError
from feed_assets.state.address import StoreError, sqlite_url
from feed_assets_tests.reference.settings import HEADINGS

VARIABLES = {
    str(field.validation_alias): not field.repr
    for sections in HEADINGS.values()
    for section in sections
    for field in section.model_fields.values()
}
"""Each variable of a section, and whether it is a secret."""


def test_without_any_variable_data_goes_below_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    settings = Settings.from_environment({})

    assert settings.base == str(tmp_path / "data")
    assert settings.first_day == date(2020, 1, 1)
    assert settings.as_of is None
    assert settings.sources_directory == Path("sources")


def test_a_project_names_the_directory_of_its_sources_and_the_environment_another():
    own, other = Path("descriptions"), {"FEED_ASSETS_SOURCES": "elsewhere"}

    assert Settings.from_environment({}, sources_directory=own).sources_directory == own
    assert Settings.from_environment(other, sources_directory=own).sources_directory == Path("elsewhere")


def test_datasets_and_destinations_lie_beside_the_sources_unless_the_environment_names_a_directory(tmp_path):
    own = Settings.from_environment({}, sources_directory=Path("shop/sources"))
    assert (own.datasets_directory, own.deliveries_directory) == (Path("shop/datasets"), Path("shop/deliveries"))

    assert Settings.from_environment({"FEED_ASSETS_DELIVERIES": str(tmp_path)}).deliveries_directory == tmp_path
    nowhere = {"FEED_ASSETS_DELIVERIES": str(tmp_path / "nowhere")}
    with pytest.raises(
        SettingsError, match=r"FEED_ASSETS_DELIVERIES is .*nowhere', .* one YAML file for each destination"
    ):
        Settings.from_environment(nowhere)


def test_a_base_in_a_bucket_is_taken_as_it_is():
    assert Settings.from_environment({"FEED_ASSETS_BASE": "s3://bucket/ads"}).base == "s3://bucket/ads"


def test_a_base_with_one_slash_is_refused_or_the_directory_that_it_names(tmp_path):
    with pytest.raises(SettingsError, match=r"FEED_ASSETS_BASE: 's3:/bucket/prod' names no bucket\. Write s3://"):
        Settings.from_environment({"FEED_ASSETS_BASE": "s3:/bucket/prod"})
    settings = Settings.from_environment({"FEED_ASSETS_BASE": f"file:{tmp_path}"})
    assert local_directory(settings.base) == tmp_path


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FEED_ASSETS_AS_OF", "yesterday"),
        ("FEED_ASSETS_AS_OF", "9999-12-31T23:59:59-12:00"),
        ("FEED_ASSETS_AS_OF", "0001-01-01"),
        ("FEED_ASSETS_AS_OF", "19691231.235959"),
        ("FEED_ASSETS_AS_OF", "9999-01-01"),
        ("FEED_ASSETS_BASE", "~nobody-of-this-name/data"),
        ("FEED_ASSETS_FIRST_DAY", "2019-11-31"),
        ("FEED_ASSETS_SENSOR_SECONDS", "0"),
        ("FEED_ASSETS_SCAN_SECONDS", "-1"),
        ("FEED_ASSETS_SENSOR_SECONDS", "½"),
        ("FEED_ASSETS_SENSOR_SECONDS", "1.5"),
        # Python's or pydantic's own reading would take these.
        ("FEED_ASSETS_SENSOR_SECONDS", "\uff13\uff10"),
        ("FEED_ASSETS_SENSOR_SECONDS", " 30"),
        ("FEED_ASSETS_SENSOR_SECONDS", "1_0"),
        ("FEED_ASSETS_SCAN_SECONDS", "9" * 25),
        ("FEED_ASSETS_SCAN_SECONDS", "9" * 5000),
        ("FEED_ASSETS_SCAN_SECONDS", " "),
        ("FEED_ASSETS_FIRST_DAY", "1574553600"),
        ("FEED_ASSETS_FIRST_DAY", "2019-11-24T00:00:00"),
        ("FEED_ASSETS_FIRST_DAY", "\uff12019-11-24"),
        ("FEED_ASSETS_HOURLY", "yes"),
        ("FEED_ASSETS_HOURLY", " "),
        ("FEED_ASSETS_LOG_LEVEL", "info"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_variable(variable, value):
    with pytest.raises(SettingsError, match=f"{variable} is '{value}'; it takes"):
        Settings.from_environment({variable: value})


def test_an_empty_variable_means_its_default():
    assert Settings.from_environment(dict.fromkeys(VARIABLES, "")) == Settings.from_environment({})


def test_only_the_given_environment_is_read_and_only_names_in_capitals(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    expected = Settings.from_environment({})
    (tmp_path / ".env").write_text("FEED_ASSETS_LOG_LEVEL=DEBUG\n", encoding="utf-8")
    monkeypatch.setenv("FEED_ASSETS_HOURLY", "1")

    assert Settings.from_environment({name.lower(): "1" for name in VARIABLES}) == expected


@pytest.mark.parametrize("url", ["hunter2", "x://hunter2", "x://u:hunter2\udcff@host:port/db", "x://[hunter2"])
@pytest.mark.parametrize("variable", [name for name, is_secret in VARIABLES.items() if is_secret])
def test_a_wrong_secret_is_in_no_message_and_in_no_trace(variable, url):
    with pytest.raises(FeedAssetsError, match=variable) as refused:
        Settings.from_environment({variable: url})

    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_a_secret_that_pydantic_refuses_is_not_shown():
    secret = "hunter2"

    class Keys(Section):
        key: int = Field(0, validation_alias="FEED_ASSETS_KEY", repr=False, description="a number")

    with pytest.raises(SettingsError, match="FEED_ASSETS_KEY is wrong, and not shown: it takes a number") as refused:
        Keys.read({"FEED_ASSETS_KEY": secret})

    assert secret not in "".join(traceback.format_exception(refused.value))


def test_a_base_outside_utf_8_needs_a_state_database_elsewhere(tmp_path):
    base, state = "/data/\udcff", sqlite_url(tmp_path / "state.db")

    with pytest.raises(SettingsError, match=r"cannot be in .*: rename it, or set FEED_ASSETS_STATE"):
        Settings.from_environment({"FEED_ASSETS_BASE": base})
    with pytest.raises(StoreError, match="FEED_ASSETS_STATE must be"):
        Settings.from_environment({"FEED_ASSETS_STATE": "postgresql://me:\udcff@host/db"})

    assert Settings.from_environment({"FEED_ASSETS_BASE": base, "FEED_ASSETS_STATE": state}).base == base


def test_a_time_without_a_zone_is_utc_and_one_with_a_zone_is_converted():
    assert parse_time("2019-12-01") == datetime(2019, 12, 1, tzinfo=UTC)
    assert parse_time("2019-12-01T09:00:00+09:00") == datetime(2019, 12, 1, tzinfo=UTC)


def test_a_local_base_may_say_what_time_it_is_there(tmp_path):
    (tmp_path / ".as-of").write_text("2019-12-01\n", encoding="utf-8")

    settings = Settings.from_environment({"FEED_ASSETS_BASE": str(tmp_path)})

    assert settings.as_of == datetime(2019, 12, 1, tzinfo=UTC)
    assert settings.clock.now() == settings.as_of


@pytest.mark.parametrize("variable", ["now", "2020-01-01"])
def test_the_variable_goes_before_what_the_base_says(tmp_path, variable):
    (tmp_path / ".as-of").write_text("2019-12-01", encoding="utf-8")

    settings = Settings.from_environment({"FEED_ASSETS_BASE": str(tmp_path), "FEED_ASSETS_AS_OF": variable})

    assert settings.as_of == (None if variable == "now" else datetime(2020, 1, 1, tzinfo=UTC))


def test_an_unusable_time_of_the_base_is_named_with_its_file(tmp_path):
    (tmp_path / ".as-of").write_text("soon", encoding="utf-8")

    with pytest.raises(SettingsError, match=f"{Path(tmp_path / '.as-of')} is 'soon'"):
        Settings.from_environment({"FEED_ASSETS_BASE": str(tmp_path)})


@pytest.mark.parametrize(
    ("base", "home", "expected"),
    [
        ("/data", "", "/data/.state/state.db"),
        ("/data", "/dagster", "/data/.state/state.db"),
        ("file:///data", "/dagster", "/data/.state/state.db"),
        ("s3://bucket/ads", "/dagster", "/dagster/.state/state.db"),
        ("s3://bucket/ads", "", "{here}/.dagster/.state/state.db"),
    ],
)
def test_the_state_database_is_in_a_local_base_and_of_a_bucket_in_the_dagster_home(
    base, home, expected, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)

    settings = Settings.from_environment({"FEED_ASSETS_BASE": base, "DAGSTER_HOME": home})

    assert settings.state == f"sqlite:///{expected.format(here=tmp_path)}"


def test_a_state_database_of_a_server_is_taken_as_it_is_and_its_password_is_not_shown():
    settings = Settings.from_environment({"FEED_ASSETS_STATE": "postgresql://me:secret@host/db"})

    assert settings.state == "postgresql+psycopg://me:secret@host/db?client_encoding=utf8&connect_timeout=10"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    "url", ["secret", "mysql://me:secret@host/db", "postgresql://me:se@secret@host/db", "sqlite://"]
)
def test_a_url_that_names_no_state_database_is_refused_and_not_shown(url):
    with pytest.raises(StoreError, match="FEED_ASSETS_STATE must be sqlite:////directory") as refused:
        Settings.from_environment({"FEED_ASSETS_STATE": url})

    assert "secret" not in str(refused.value)


def test_a_state_database_that_somebody_names_over_a_link_is_the_file_that_it_leads_to(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "disk")
    environment = {"FEED_ASSETS_BASE": str(tmp_path), "FEED_ASSETS_STATE": sqlite_url(tmp_path / "named/state.db")}

    assert Settings.from_environment(environment).state == sqlite_url(tmp_path / "disk/state.db")
