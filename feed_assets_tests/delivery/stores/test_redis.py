"""What is Redis' own: a server that is gone, full, evicts or refuses; how long it keeps tombstones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from feed_assets.delivery.errors import StoreUnusableError
from feed_assets.delivery.stores.address import KEEP_SECONDS, open_store
from feed_assets.delivery.stores.port import Change, Store, Value
from feed_assets_tests.servers.redis import RedisServer
from feed_assets_tests.waiting import until

OLD, NEW = b"1", b"2"


@pytest.fixture
def url(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> str:
    return redis_server.given(monkeypatch)


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    with redis_server.client() as opened:
        yield opened
        opened.config_set("maxmemory", 0)
        opened.config_set("maxmemory-policy", "noeviction")


def test_a_server_that_is_gone_is_named_and_used_again_when_it_is_back(
    redis_server: RedisServer, store: Store, space: str
):
    store.claim(space, "prices")
    store.apply(space, [Change("k", OLD, b"x")])
    redis_server.kill()
    for use in (
        lambda: store.apply(space, [Change("k", NEW, b"y")]),
        lambda: store.get_many(space, ["k"], now=0),
        lambda: store.claim(space, "prices"),
    ):
        with pytest.raises(StoreUnusableError, match=f"^{store.title}: .*Check that it runs") as refused:
            use()
        assert redis_server.password not in str(refused.value)
    redis_server.start()
    # It has its data, and no script.
    assert store.get_many(space, ["k"], now=0) == {"k": Value(b"x", OLD)}
    assert store.apply(space, [Change("k", NEW, b"y"), Change("k", OLD, b"x")]) == ["applied", "superseded"]


def test_a_server_that_has_lost_the_script_gets_it_again(client: Redis, store: Store, space: str):
    store.apply(space, [Change("k", OLD, b"x")])
    client.script_flush()
    assert store.apply(space, [Change("k", OLD, b"x")]) == ["applied"]
    client.script_flush()
    assert store.get_many(space, ["k"], now=0) == {"k": Value(b"x", OLD)}


def test_a_wrong_password_is_said_and_not_shown(redis_server: RedisServer, tmp_path: Path):
    with (
        open_store(redis_server.url, tmp_path, options={"password": "hunter2"}) as store,
        pytest.raises(StoreUnusableError, match="Check the user and the password") as refused,
    ):
        store.get_many("space", ["k"], now=0)
    assert "hunter2" not in f"{refused.value!r}{refused.value.__cause__!r}{store.title}"


def test_the_rights_that_a_user_is_told_to_have_are_enough_and_lookups_need_fewer(
    client: Redis, redis_server: RedisServer, space: str, tmp_path: Path
):
    options = {"username": "reader", "password": "pass"}
    rights = ["reset", "on", ">pass", "~*", "+@read", "+@scripting"]
    client.execute_command("ACL", "SETUSER", "reader", *rights)
    with open_store(redis_server.url, tmp_path, options=options) as store:
        assert store.get_many(space, ["k"], now=0) == {}
        with pytest.raises(StoreUnusableError) as refused:
            store.apply(space, [Change("k", NEW, b"x")])
        rights += [word.strip(",") for word in str(refused.value).split() if word.startswith("+")]
        client.execute_command("ACL", "SETUSER", "reader", *rights)
        store.claim(space, "prices")
        assert store.apply(space, [Change("k", NEW, b"x"), Change("j", NEW, b"x", 4e9)]) == ["applied"] * 2
    client.execute_command("ACL", "DELUSER", "reader")


def test_a_server_that_evicts_keys_is_refused(client: Redis, store: Store, space: str):
    client.config_set("maxmemory-policy", "volatile-lru")
    with pytest.raises(StoreUnusableError, match=r"evicts keys .*volatile-lru.*set `maxmemory-policy noeviction`"):
        store.claim(space, "prices")
    client.config_set("maxmemory-policy", "noeviction")
    store.claim(space, "stock")  # the refused owner has taken nothing


def test_a_full_server_refuses_and_keeps_what_it_has(client: Redis, store: Store, space: str):
    store.apply(space, [Change("ends", OLD, b"x", 4e9), Change("stays", OLD, b"x")])
    client.config_set("maxmemory", 1)
    for change in (Change("ends", NEW, b"y"), Change("stays", NEW, None), Change("new", NEW, b"y")):
        with pytest.raises(StoreUnusableError, match=r"used memory > 'maxmemory'.*Applying again does no harm"):
            store.apply(space, [change])
    expected = {"ends": Value(b"x", OLD), "stays": Value(b"x", OLD)}
    assert store.get_many(space, ["ends", "stays", "new"], now=0) == expected
    client.config_set("maxmemory", 0)
    assert store.apply(space, [Change("ends", NEW, b"y")]) == ["applied"]
    assert client.ttl(f"{space}:ends") == -1


def test_data_of_another_program_is_left_alone(client: Redis, store: Store, space: str):
    client.set(f"{space}:k", "theirs")
    with pytest.raises(StoreUnusableError, match=r"WRONGTYPE.*no other program writes into this space"):
        store.apply(space, [Change("k", NEW, b"x")])
    assert client.get(f"{space}:k") == b"theirs"


def test_any_client_finds_a_value_by_space_and_key(client: Redis, store: Store, space: str):
    store.apply(space, [Change('["p1","de"]', NEW, b'{"price":1}')])
    assert client.hget(f'{space}:["p1","de"]', "value") == b'{"price":1}'


def test_redis_keeps_tombstones_and_ended_versions_for_the_time_it_was_told(client: Redis, store: Store, space: str):
    now = time.time()
    store.apply(
        space,
        [
            Change("deleted", NEW, None),
            Change("ended", NEW, b"x", 1.0),
            Change("ends", NEW, b"x", now + 5000),
            Change("never", NEW, b"x", now + 5000),
            Change("never", NEW + NEW, b"x"),
        ],
    )
    ends = {key: client.pexpiretime(f"{space}:{key}") / 1000 for key in ("deleted", "ended", "ends", "never")}
    assert ends.pop("ends") == pytest.approx(now + 5000 + KEEP_SECONDS, abs=0.001)
    assert ends.pop("never") < 0
    for forgotten in ends.values():
        assert now + KEEP_SECONDS - 1 <= forgotten <= time.time() + KEEP_SECONDS + 1
    assert store.sweep(before=now + 1e9) == 0


def test_a_repeated_delete_does_not_make_its_tombstone_younger(client: Redis, store: Store, space: str):
    store.apply(space, [Change("k", NEW, None)])
    ends = client.pexpiretime(f"{space}:k")
    time.sleep(0.01)  # the clock goes on
    store.apply(space, [Change("k", NEW, None)])
    assert client.pexpiretime(f"{space}:k") == ends


def test_redis_forgets_by_itself(client: Redis, redis_server: RedisServer, space: str, tmp_path: Path):
    options = {"password": redis_server.password}
    with open_store(redis_server.url, tmp_path, options=options, keep_seconds=0.01) as store:
        store.apply(space, [Change("deleted", NEW, None), Change("ended", NEW, b"x", 1.0), Change("stays", NEW, b"x")])
        until(lambda: client.exists(f"{space}:deleted", f"{space}:ended") == 0)
        assert store.apply(space, [Change("deleted", OLD, b"old"), Change("stays", OLD, b"old")]) == [
            "applied",
            "superseded",
        ]
