"""A store in Redis: a hash for each key, with the fields `version`, `value` and `expires`, at `<space>:<key>`.

Any client of Redis can look up: `HGET prices:p1 value`, if the destination's values do not expire. Here: the hashes,
and how they change. Not here: which version is newer; bytes compare as versions do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from redis import Redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterCrossSlotError,
    ClusterError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from feed_assets.delivery.errors import SpaceTakenError, StoreUnusableError
from feed_assets.delivery.stores.port import Change, Outcome, Value

AT_ONCE: Final = 100
"""The keys of one call. The server does nothing else meanwhile, so a call is short."""
BYTES_AT_ONCE: Final = 1 << 20
"""The bytes of values after which a call takes no further change."""
CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 10.0
TRIES: Final = 3
"""How often a failed call is sent again, within two seconds: a second effect is none."""

_OWNERS: Final = "feed_assets.owners"  # the name of each key of a space has a colon

# Lua compares strings by the server's locale, and so not as bytes. A script that has written may exceed the server's
# memory; HSET comes first, so that a full server refuses, and changes nothing of this key.
_APPLY: Final = """
local function older(a, b)
    for i = 1, math.min(#a, #b) do
        local x, y = string.byte(a, i), string.byte(b, i)
        if x ~= y then return x < y end
    end
    return #a < #b
end

local time, keep, applied = redis.call('TIME'), tonumber(ARGV[1]), {}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, key in ipairs(KEYS) do
    local version, value, expires = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
    local stored = redis.call('HGET', key, 'version')
    applied[i] = 1
    if not stored or older(stored, version) then
        local ends = nil
        if expires == 'deleted' then
            ends = now
            redis.call('HSET', key, 'version', version)
            redis.call('HDEL', key, 'value', 'expires')
        elseif expires == 'never' then
            redis.call('HSET', key, 'version', version, 'value', value)
            redis.call('HDEL', key, 'expires')
            redis.call('PERSIST', key)
        else
            ends = math.max(now, tonumber(expires) * 1000)
            redis.call('HSET', key, 'version', version, 'value', value, 'expires', expires)
        end
        if ends then redis.call('PEXPIREAT', key, string.format('%.0f', ends + keep)) end
    elseif stored ~= version then
        applied[i] = 0
    end
end
return applied
"""
# A pipeline takes two to three times as much of the client's processor.
_GET_MANY: Final = """
local found = {}
for i, key in ipairs(KEYS) do
    found[i] = redis.call('HMGET', key, 'value', 'version', 'expires')
end
return found
"""


class RedisStore:
    """A store in a database of a Redis server, version 5 or newer; any number of threads and hosts may share it.

    `keep_seconds` is how long a tombstone, and the version of a value that has ended, stay: longer than a record can be
    late. Redis then forgets them by itself.

    An answer says that the server has the changes in memory; what it keeps after a crash is its setting: `appendonly
    yes` with `appendfsync always` loses nothing, `everysec` up to two seconds. A replica that takes over may lack the
    last changes. What was lost comes back by `feed-assets deliver replay`. A server that evicts keys is refused.

    Redis Cluster is not supported: one call changes keys of several slots. Values of 200 bytes take 1.5 times the
    memory unless the server's `hash-max-listpack-value` is above their size.
    """

    def __init__(self, url: str, title: str, *, options: Mapping[str, str], keep_seconds: float) -> None:
        self._title = title
        self._keep = round(keep_seconds * 1000)
        self._client = Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=1), TRIES),
            **options,
        )
        self._apply = self._client.register_script(_APPLY)
        self._get_many = self._client.register_script(_GET_MANY)

    @property
    def title(self) -> str:
        """See `Store.title`."""
        return self._title

    def claim(self, space: str, owner: str) -> None:
        """See `Store.claim`. Raises StoreUnusableError if the server evicts keys: it would lose versions, too."""
        with self._explained():
            policy = self._client.info("memory")["maxmemory_policy"]
        if policy != "noeviction":
            raise StoreUnusableError(
                f"{self.title} evicts keys when its memory is full (maxmemory-policy {policy}), and older values could "
                "come back: set `maxmemory-policy noeviction` on the server."
            )
        with self._explained():
            self._client.hsetnx(_OWNERS, space, owner)
            found = _text(self._client.hget(_OWNERS, space))
        if found != owner:
            raise SpaceTakenError.of(self.title, space, found)

    def apply(self, space: str, changes: Sequence[Change]) -> Sequence[Outcome]:
        """See `Store.apply`. Up to `AT_ONCE` changes take effect together."""
        outcomes: list[Outcome] = []
        for batch in _batches(changes):
            keys, arguments = [], [b"%d" % self._keep]
            for change in batch:
                keys.append(_name(space, change.key))
                arguments += change.version, change.value or b"", _expires(change)
            with self._explained():
                applied = self._apply(keys, arguments)
            outcomes += ("applied" if each else "superseded" for each in applied)
        return outcomes

    def get_many(self, space: str, keys: Sequence[str], *, now: float) -> Mapping[str, Value]:
        """See `Store.get_many`."""
        values = {}
        for start in range(0, len(keys), AT_ONCE):
            batch = keys[start : start + AT_ONCE]
            with self._explained():
                found = self._get_many([_name(space, key) for key in batch])
            for key, (value, version, expires) in zip(batch, found, strict=True):
                if value is not None and (expires is None or float(expires) >= now):
                    values[key] = Value(value, version)
        return values

    def sweep(self, *, before: float) -> int:  # noqa: ARG002 - of the port
        """Returns 0: Redis forgets by itself, after `keep_seconds`."""
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except RedisError as error:
            raise StoreUnusableError(f"{self.title}: {str(error).rstrip('.')}. {_advice(error)}") from error


def _text(answer: bytes | str | None) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer or ""


def _name(space: str, key: str) -> bytes:
    return f"{quote(space, safe='')}:{key}".encode()


def _expires(change: Change) -> bytes:
    if change.value is None:
        return b"deleted"
    return b"never" if change.expires is None else repr(float(change.expires)).encode()


def _batches(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    start = size = 0
    for number, change in enumerate(changes):
        if number - start == AT_ONCE or size > BYTES_AT_ONCE:
            yield changes[start:number]
            start, size = number, 0
        size += len(change.value or b"")
    if start < len(changes):
        yield changes[start:]


def _advice(error: RedisError) -> str:
    match error:
        case AuthenticationError():
            return "Check the user and the password in FEED_ASSETS_STORE_<DESTINATION>."
        case OutOfMemoryError():
            return "Give the server more memory (maxmemory), or let values expire. Applying again does no harm."
        case ReadOnlyError():
            return "It is a replica: name the primary server."
        case AskError() | ClusterCrossSlotError() | ClusterError():
            return "It is a Redis Cluster, which is not supported: name a server that has all keys."
        case ResponseError():
            return (
                "Check that the user has +@read +@write +@scripting +info +time, that the server has the database "
                "of the URL, and that no other program writes into this space."
            )
        case _:
            return (
                "Check that it runs, that this host reaches it, and for TLS that the URL begins with rediss "
                "(certificates of an own issuer: SSL_CERT_FILE). Applying again does no harm."
            )
