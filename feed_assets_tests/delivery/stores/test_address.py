"""URLs of stores: what they open, and what is said of wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from feed_assets.delivery.errors import StoreUnusableError
from feed_assets.delivery.stores.address import open_store, options_of
from feed_assets.delivery.stores.port import Change

SECRET = "hunter2"


def test_sqlite_is_a_file_of_the_folder_and_a_url_names_any_file(tmp_path: Path):
    other = tmp_path / "a file.db"
    for url, file in (("sqlite", tmp_path / "stores.db"), (f"sqlite:///{tmp_path}/a%20file.db", other)):
        with open_store(url, tmp_path) as store:
            assert store.apply("a", [Change("k", b"1", b"x")]) == ["applied"]
            assert store.title == f"sqlite:///{file}"
        assert file.exists()


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("redis://cache", "redis://cache/0"),
        ("redis://cache:6380/3", "redis://cache:6380/3"),
        ("rediss://cache/", "rediss://cache/0"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
    ],
)
def test_a_url_of_redis_opens_nothing_yet(tmp_path: Path, url: str, title: str):
    with open_store(url, tmp_path, options={"username": "user", "password": SECRET}) as store:
        assert store.title == title


def test_credentials_are_a_json_object_of_a_variable_and_others_are_refused(tmp_path: Path):
    options = options_of("prices-eu", {"FEED_ASSETS_STORE_PRICES_EU": f'{{"password": "{SECRET}", "db": "1"}}'})
    with pytest.raises(StoreUnusableError) as refused:
        open_store("redis://cache", tmp_path, options=options)
    assert str(refused.value) == "redis://cache/0 has no option db; there are password, username."
    with open_store("rediss://cache", tmp_path, options={"ssl_ca_certs": "ca.pem"}):
        pass
    for wrong in (SECRET, f'["{SECRET}"]', '{"password": 1}'):
        with pytest.raises(StoreUnusableError, match="FEED_ASSETS_STORE_PRICES is no JSON object of texts") as refused:
            options_of("prices", {"FEED_ASSETS_STORE_PRICES": wrong})
        assert SECRET not in str(refused.value)
    assert options_of("prices", {}) == {}
    assert options_of("prices.eu-1", {"FEED_ASSETS_STORE_PRICES_EU_1": '{"username": "u"}'}) == {"username": "u"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        SECRET,
        "sqlite:",
        "sqlite://",
        "sqlite:////",
        f"sqlite://{SECRET}/stores.db",
        f"sqlite:////stores.db?{SECRET}",
        "redis:",
        "redis://",
        f"redis://:{SECRET}@",
        f"redis://:{SECRET}@host:port/0",
        f"redis://:{SECRET}@host:0/0",
        f"redis://:{SECRET}@host:99999/0",
        f"redis://:{SECRET}@host/0",
        f"redis://{SECRET}@host",
        f"redis://:{SECRET}@host/one",
        f"redis://:{SECRET}@host/0?timeout=1",
        f"redis://:a/{SECRET}@host/0",
        f"redis://:a#{SECRET}@host/0",
        f"redis://:a?{SECRET}@host/0",
        f"redis://:a@{SECRET}@host/0",
        f"redis://:a%{SECRET}@host/0",
        f"redis://:[{SECRET}@host/0",
        f"unix:///{SECRET}",
        f"dynamodb://{SECRET}",
    ],
)
def test_a_wrong_url_is_not_shown_and_the_right_ones_are(tmp_path: Path, url: str):
    with pytest.raises(StoreUnusableError, match=r"A store must be sqlite, sqlite:////directory.*redis://") as refused:
        open_store(url, tmp_path)
    assert SECRET not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_of_redis_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "feed_assets.delivery.stores.redis", raising=False)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StoreUnusableError) as refused:
        open_store("redis://cache", tmp_path, options={"password": SECRET})
    assert str(refused.value) == "redis://cache/0 needs the package redis: pip install 'feed_assets[delivery]'."
    with open_store("sqlite", tmp_path):
        pass
