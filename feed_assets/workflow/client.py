"""The client of a workflow: sessions, numbered calls, and finding the master again.

Here: sending a call until its answer is there, whoever is master. Not here: the forms of calls (`calls`), and what a
worker does with a task (`worker`).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
import urllib3

from feed_assets.errors import FeedAssetsError
from feed_assets.workflow.calls import AnyCall, Code, Hello, Numbered, Refused, Reply
from feed_assets.workflow.errors import UnreachableError

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 120.0
"""How long a client looks for a master before it gives up."""
_AGAIN: Final = frozenset({"Busy", "NotMaster", "WrongMaster"})
"""Refusals after which the same call is sent again, perhaps to another master."""

_WRONG: Final[dict[int, Code]] = {400: "Invalid", 413: "TooLarge"}
"""What the service says of a body that is no call: sending it again does not help."""

_log = logging.getLogger(__name__)
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Reply).decode
Kind = TypeVar("Kind", bound=Numbered)


@dataclass(slots=True)
class Client:
    """One session with the master of a workflow, for several threads; `find` returns the master's URL now, or None.

    It sends a call again until it is answered, and believes no answer with another token or of an earlier epoch than it
    has seen. `authorization` is a header; `build` says who this is, for people.
    """

    token: str
    find: Callable[[], str | None]
    build: str = ""
    authorization: str | None = None
    patience: float = PATIENCE_SECONDS
    epoch: int = 0
    session: str = ""
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _url: str | None = None
    _pool: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS), maxsize=16
        )
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, kind: type[Kind], *, wait: float = 0.0, **arguments: Any) -> Reply:
        """The reply to the next call. Raises Refused if the workflow refuses it, UnreachableError.

        `wait`: how many seconds the master may take, beyond the usual.
        """
        with self._lock:
            if not self.session:
                self.session = self._send(Hello(token=self.token, build=self.build), 0.0).answer.session
                self._numbers = itertools.count(1)
            session, seq = self.session, next(self._numbers)
        if wait:
            arguments["wait"] = wait
        call = kind(token=self.token, epoch=self.epoch, session=session, seq=seq, **arguments)
        try:
            return self._send(call, wait)  # type: ignore[arg-type] # a subclass is one of the calls
        except Refused as error:
            if error.code == "SessionLost":
                with self._lock:
                    if self.session == session:
                        self.session = ""
            raise

    def read(self, path: str, **parameters: str | int) -> Any:
        """What `GET /v1/PATH` says, as JSON. Raises UnreachableError, Refused."""
        return self._until_answered(lambda url: self._get(url, path, parameters))

    def _send(self, call: AnyCall, wait: float) -> Reply:
        path = f"/v1/{type(call).__struct_config__.tag}"

        def once(url: str) -> Reply:
            present = msgspec.structs.replace(call, epoch=self.epoch)
            timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS + wait)
            answered = self._pool.request(
                "POST", url + path, body=_encode(present), headers=self._headers(), timeout=timeout
            )
            reply = _decoded(answered)
            if reply.token != self.token:
                raise _OtherError(f"{url} is the master of another workflow")
            if reply.epoch < self.epoch:
                raise _OtherError(f"{url} is of epoch {reply.epoch}, and epoch {self.epoch} has begun")
            self.epoch = max(self.epoch, reply.epoch)
            if reply.answer.refused in _AGAIN:
                raise _OtherError(f"{url}: {reply.answer.message}", reply.answer.retry_after)
            return reply

        reply: Reply = self._until_answered(once)
        if (code := reply.answer.refused) != "":
            answer = reply.answer
            raise Refused(code, answer.message, ids=answer.lost, retry_after=answer.retry_after)
        return reply

    def _get(self, url: str, path: str, parameters: dict[str, Any]) -> Any:
        answered = self._pool.request("GET", f"{url}/v1/{path}", fields=parameters, headers=self._headers())
        found = msgspec.json.decode(answered.data)
        if answered.status in (401, 403):
            raise _unauthorized(answered)
        if answered.status >= 400:  # noqa: PLR2004 - an error of HTTP
            raise Refused("Invalid", str(found.get("detail", answered.status)))
        if found.get("token") != self.token:
            raise _OtherError(f"{url} is the master of another workflow")
        return found

    def _until_answered(self, once: Callable[[str], Any]) -> Any:
        """What `once` returns from the master, wherever it is. Raises UnreachableError after `patience`."""
        end = time.monotonic() + self.patience
        said = "none has an address yet"
        for tries in itertools.count():
            pause = random.uniform(0.0, min(2.0, 0.05 * 2**tries))  # noqa: S311 - jitter
            try:
                url = self._url or self._found()
                if url is not None:
                    return once(url)
            except _OtherError as error:
                said, pause, self._url = str(error), max(pause, error.retry_after), None
                self._pool.clear()  # behind a balancer, another connection may reach another master
            except (urllib3.exceptions.HTTPError, msgspec.DecodeError, FeedAssetsError) as error:
                if isinstance(error, Refused):
                    raise
                said, self._url = str(error), None
            if time.monotonic() + pause > end:
                raise UnreachableError(
                    f"No master answered for {self.patience:g} s: {said}. If none runs, start one with "
                    f"`feed-assets workflow serve`."
                )
            time.sleep(pause)
        raise AssertionError("the loop has no end")

    def _found(self) -> str | None:
        self._url = self.find()
        return self._url

    def _headers(self) -> dict[str, str]:
        found = {"Content-Type": "application/json"}
        if self.authorization:
            found["Authorization"] = self.authorization
        return found


class _OtherError(Exception):
    """It is not the master that the client means, or it cannot answer now."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def _decoded(answered: urllib3.BaseHTTPResponse) -> Reply:
    if answered.status in (401, 403):
        raise _unauthorized(answered)
    try:
        return _decode(answered.data)
    except msgspec.DecodeError:
        if answered.status not in _WRONG:
            raise
        with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
            raise Refused(_WRONG[answered.status], str(msgspec.json.decode(answered.data)["detail"])) from None
        raise


def _unauthorized(answered: urllib3.BaseHTTPResponse) -> Refused:
    """What a master says of a token: none or a wrong one, or one that does not suffice."""
    said = (
        "The master asks for a valid token: set FEED_ASSETS_WORKFLOW_TOKEN to one that `feed-assets serve tokens add` "
        "has printed."
    )
    if answered.status == 403:  # noqa: PLR2004 - the token is known
        with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
            said = str(msgspec.json.decode(answered.data)["detail"])
    return Refused("Unauthorized", said)
