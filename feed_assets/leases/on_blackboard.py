"""Leases on a blackboard: an object each, replaced only by who has read it. No database is needed."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, ConflictError, Content, NotFoundError
from feed_assets.leases.port import Lease, is_over


@dataclass(frozen=True, slots=True)
class BlackboardLeases:
    """See `Leases`. The name of a lease is the key of its object. All methods raise BlackboardError."""

    blackboard: Blackboard

    def take(self, name: str, length: timedelta, *, now: datetime) -> Lease | None:
        """See `Leases.take`. One PUT; if there is an object, a GET, and a PUT if its lease has ended."""
        first = Lease(name, 1, uuid4().hex, now + length)
        try:
            self.blackboard.create(name, _encoded(first))
        except AlreadyExistsError:
            return self._taken_over(first, length, now)
        return first

    def renew(self, lease: Lease, length: timedelta, *, now: datetime) -> Lease | None:
        """See `Leases.renew`. A GET and a PUT."""
        renewed = Lease(lease.name, lease.number, lease.holder, now + length)
        with suppress(NotFoundError):
            there = self.blackboard.read(lease.name)
            if _is_of(there, lease):
                return self._replaced(there, renewed)
        return None

    def release(self, lease: Lease) -> None:
        """See `Leases.release`. A GET, and a DELETE if the lease was not taken over."""
        with suppress(NotFoundError):
            if _is_of(self.blackboard.read(lease.name), lease):
                self.blackboard.delete(lease.name)

    def _taken_over(self, wanted: Lease, length: timedelta, now: datetime) -> Lease | None:
        with suppress(NotFoundError):  # it was released meanwhile: the next try takes it
            there = self.blackboard.read(wanted.name)
            before = _decoded(wanted.name, there)
            # The answer to a create that succeeded may have been lost; no other process writes this holder.
            if before is None or before.holder != wanted.holder:
                if before is not None and not is_over(before.until, length, now):
                    return None
                number = before.number + 1 if before else 1
                return self._replaced(there, Lease(wanted.name, number, wanted.holder, wanted.until))
            return wanted
        return None

    def _replaced(self, there: Content, lease: Lease) -> Lease | None:
        with suppress(ConflictError):
            self.blackboard.replace(lease.name, _encoded(lease), tag=there.entry.tag)
            return lease
        # Here, too, an answer may have been lost.
        with suppress(NotFoundError):
            if self.blackboard.read(lease.name).data == _encoded(lease):
                return lease
        return None


def _encoded(lease: Lease) -> bytes:
    content = {"number": lease.number, "holder": lease.holder, "until": lease.until.isoformat()}
    return json.dumps(content, sort_keys=True).encode()


def _decoded(name: str, there: Content) -> Lease | None:
    """The lease that an object tells; None if no program of this version wrote it: then it counts as ended."""
    with suppress(ValueError, KeyError, TypeError):
        content = json.loads(there.data)
        return Lease(name, int(content["number"]), str(content["holder"]), datetime.fromisoformat(content["until"]))
    return None


def _is_of(there: Content, lease: Lease) -> bool:
    found = _decoded(lease.name, there)
    return found is not None and (found.number, found.holder) == (lease.number, lease.holder)
