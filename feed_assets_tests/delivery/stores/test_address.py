"""URLs of stores: what they open, and what is said of wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from feed_assets.delivery.errors import StoreUnusableError
from feed_assets.delivery.stores.address import open_store
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
        (f"redis://:{SECRET}@cache:6380/3", "redis://cache:6380/3"),
        (f"rediss://user:{SECRET}%40%2F@cache/", "rediss://cache/0"),
        (f"redis://:{SECRET}@[::1]:6379/0", "redis://[::1]:6379/0"),
    ],
)
def test_a_url_of_redis_is_shown_without_its_password_and_opens_nothing_yet(tmp_path: Path, url: str, title: str):
    with open_store(url, tmp_path) as store:
        assert store.title == title


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
        open_store(f"redis://:{SECRET}@cache", tmp_path)
    assert str(refused.value) == "redis://cache/0 needs the package redis: pip install 'feed_assets[delivery]'."
    with open_store("sqlite", tmp_path):
        pass
