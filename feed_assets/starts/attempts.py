"""Attempts at slots of flows: at most one of a slot is alive, in any order of daemons, runs, crashes and deleted runs.

Here: requesting an attempt, taking it at the start of its run, forcing one, ending it, and the lease of its processes.
Each method is one transaction that changes attempts, leases and the log `dependencies` together. Not here: why a slot
is due, pausing a flow and how many run at once (the gate), and Dagster, which callers ask.

An attempt saves work. That nothing is published twice is decided by storage (`file_feed.starts`): a process that
stood still until its lease had ended may go on beside the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self

from feed_assets.leases.holding import Holding
from feed_assets.leases.in_database import DatabaseLeases, live_leases, release_lease, renew_lease, take_lease
from feed_assets.leases.port import Lease
from feed_assets.starts.attempt import (
    LEASE,
    LOST_AFTER,
    MOST_TRIES,
    RENEWALS,
    SETTLED,
    Answer,
    Attempt,
    AttemptRefusedError,
    State,
    Verdict,
    living,
    tries_of,
    verdict,
)
from feed_assets.starts.tables import (
    Slot,
    attempt_of_key,
    attempts_alive,
    attempts_of,
    newest_attempts,
    save_attempts,
    store_id,
)
from feed_assets.state.store import Store, Transaction

LOG: Final = "dependencies"
"""The log of attempts; its lock orders their writers."""


class KnownRun(StrEnum):
    """What Dagster knows of the run of an attempt, and of its repetitions. A deleted run is not known."""

    UNFINISHED = "unfinished"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A slot that may start: its inputs, why, and how often to try these inputs."""

    flow: str
    slot: str
    digest: str
    reason: str = ""
    most: int = MOST_TRIES


@dataclass(frozen=True, slots=True)
class Standing:
    """What is on record of a slot: its newest attempt, and the lease that a process of it holds."""

    newest: Attempt | None = None
    lease: Lease | None = None

    def verdict(self, digest: str, *, now: datetime, runless: Collection[str] = ()) -> Verdict:
        """Whether an attempt for these inputs may follow. `now` is the installation's time; `runless` as `requesting`.

        A request without a run for inputs that were overtaken waits for nothing.
        """
        if self.overtaken(digest, runless):
            return Verdict(Answer.MAY_START)
        return verdict(self.newest, digest, lease_until=self.lease.until if self.lease else None, now=now)

    def overtaken(self, digest: str, runless: Collection[str]) -> bool:
        """Whether the newest attempt was requested for other inputs, and has no run."""
        newest = self.newest
        return (
            newest is not None
            and newest.state is State.REQUESTED
            and newest.key in runless
            and not newest.forced
            and newest.digest != digest
        )


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts below a base. All methods raise StoreError.

    `base` is the URI of the base: several may share the database. `now` is the installation's clock, for pauses and
    the log; leases are by `clock`, the machine's.
    """

    store: Store
    base: str
    now: Callable[[], datetime]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    # --- reading ------------------------------------------------------------------------------------------------------

    def newest(self, flow: str, slots: Collection[str]) -> dict[str, Attempt]:
        """The newest attempt of each of these slots that has one: a query for each thousand."""
        if not slots or not self.store.exists():
            return {}
        with self.store.reading() as connection:
            found = newest_attempts(connection, self.base, [(flow, slot) for slot in slots])
        return {slot: each for (_, slot), each in found.items()}

    def of(self, flow: str, slot: str) -> list[Attempt]:
        """The last attempts of a slot, oldest first."""
        if not self.store.exists():
            return []
        with self.store.reading() as connection:
            return attempts_of(connection, self.base, flow, slot)

    def alive(self) -> list[Attempt]:
        """All attempts that wait for their run or run, by flow and slot."""
        if not self.store.exists():
            return []
        with self.store.reading() as connection:
            return attempts_alive(connection, self.base)

    def standing(self, places: Collection[Slot]) -> dict[Slot, Standing]:
        """What is on record of each of these slots: a query for each thousand, and one for leases if runs took some."""
        if not places or not self.store.exists():
            return {place: Standing() for place in places}
        with self.store.reading() as connection:
            newest = newest_attempts(connection, self.base, places)
            taken = [each for each in newest.values() if not each.alive and each.started is not None]
            leases = self._leases(connection, taken) if taken else {}
        return {place: Standing(newest.get(place), leases.get(place)) for place in places}

    # --- the gate -----------------------------------------------------------------------------------------------------

    def known(self, known_run: Callable[[Attempt], KnownRun]) -> dict[Attempt, KnownRun]:
        """What Dagster knows of the run of each attempt that is alive."""
        return {each: known_run(each) for each in self.alive()}

    def end_lost(self, known: Mapping[Attempt, KnownRun]) -> list[Attempt]:
        """End the attempts whose run has ended or is gone, and return them. Call it first in a tick, with `known`.

        An attempt ends with its run. One that Dagster has no run of ends as `unknown`: LOST_AFTER after its request,
        or once its lease has ended; a start that a person forced waits for a sensor. Requests whose run is under way
        are renewed, so that a daemon of another Dagster, which does not know the run, does not take them for lost.
        """
        if not any(self._changes(each, run) for each, run in known.items()):
            return []
        by_key = {each.key: run for each, run in known.items()}
        with self.store.writing(LOG) as transaction:
            now = attempts_alive(transaction.connection, self.base)
            leases = self._leases(transaction.connection, now)
            changed = [new for each in now if (new := self._after(each, by_key.get(each.key), leases)) is not each]
            save_attempts(transaction, self.base, changed, self.now())
        return [each for each in changed if not each.alive]

    @contextmanager
    def requesting(self, slots: Collection[Slot], *, runless: Collection[str] = ()) -> Iterator[Requesting]:
        """A transaction that requests attempts at some of these slots; they are on record when it ends.

        `runless` has the keys of requested attempts that Dagster has no run of: others may take their place.
        """
        with self.store.writing(LOG) as transaction:
            newest, leases = self._newest_of(transaction, sorted(slots))
            requesting = Requesting(self, transaction, newest, leases, runless)
            yield requesting
            save_attempts(transaction, self.base, requesting.changed, self.now())

    def ask(self, flow: str, slot: str, *, by: str, reason: str) -> Attempt:
        """Request a forced attempt: the next tick starts its run, whatever the gate says.

        Raises AttemptRefusedError if another attempt lives, and names it.
        """
        with self.store.writing(LOG) as transaction:
            newest, leases = self._newest_of(transaction, [(flow, slot)])
            found, lease = newest.get((flow, slot)), leases.get((flow, slot))
            if lives := living(found, lease.until if lease else None):
                raise AttemptRefusedError(f"{flow} {slot} is not started: {lives.reason}. Wait until it has ended.")
            digest = found.digest if found else ""
            new = self.next(transaction, found, (flow, slot), digest=digest, most=MOST_TRIES)
            new = replace(new, forced=by, reason=reason)
            save_attempts(transaction, self.base, [new], self.now())
        return new

    def give_up(self, flow: str, slot: str, digest: str, *, reason: str) -> Attempt | Verdict:
        """Give up these inputs of a slot without a run, on record; returns why not if an attempt lives."""
        with self.store.writing(LOG) as transaction:
            newest, leases = self._newest_of(transaction, [(flow, slot)])
            found = Standing(newest.get((flow, slot)), leases.get((flow, slot))).verdict(digest, now=self.now())
            if found.answer in {Answer.LIVES, Answer.OVER}:
                return found
            new = self.next(transaction, newest.get((flow, slot)), (flow, slot), digest=digest, most=MOST_TRIES)
            new = replace(new, state=State.GIVEN_UP, reason=reason, ended=self.now())
            save_attempts(transaction, self.base, [new], self.now())
        return new

    def lives(self, key: str) -> bool:
        """Whether the attempt with this key has no result yet; also if it is not on record. Raises StoreError."""
        with self.store.reading() as connection:
            found = attempt_of_key(connection, self.base, key)
        return found is None or found.alive

    def end(self, key: str, state: State, reason: str = "", *, lease: Lease | None = None) -> Attempt | None:
        """Record the end of an attempt, and release its lease; returns it as it is then, None if it is not on record.

        A result stays: only an attempt without one changes. An attempt that ended as `unknown` may have a result later.
        """
        with self.store.writing(LOG) as transaction:
            if lease is not None:
                release_lease(transaction.connection, lease)
            attempt = attempt_of_key(transaction.connection, self.base, key)
            if attempt is None or not (attempt.alive or (state in SETTLED and attempt.state not in SETTLED)):
                return attempt
            ended = self._ended(attempt, state, reason)
            changed, place = [ended], (ended.flow, ended.slot)
            newest = newest_attempts(transaction.connection, self.base, [place])[place]
            if newest.number != ended.number and state in SETTLED and newest.state not in SETTLED:
                changed.append(replace(newest, settled=ended.settled))
            save_attempts(transaction, self.base, changed, self.now())
        return ended

    # --- the process of a run -----------------------------------------------------------------------------------------

    def start(self, keys: Iterable[str], *, run: str, root: str) -> Running:
        """Take the attempts of a run at its start, all or none. Enter the result as a block: it renews their leases.

        Each process of the run calls it. `root` is the first run of the chain of re-executions, which keep its
        attempts. Raises AttemptRefusedError if an attempt is not the newest of its slot, belongs to another run, or if
        a process of another attempt lives.
        """
        with self.store.writing(LOG) as transaction:
            asked = {key: attempt_of_key(transaction.connection, self.base, key) for key in keys}
            taken: dict[Slot, tuple[Attempt, Lease]] = {}
            refusal = ""
            for key, attempt in asked.items():
                refusal = refusal or self._take(transaction, key, attempt, run, root, taken)
            known = [each for each in asked.values() if each is not None]
            if refusal:
                for _, lease in taken.values():
                    release_lease(transaction.connection, lease)
                never = [each for each in known if each.started is None and each.state not in SETTLED]
                changed = [self._ended(each, State.REFUSED, refusal) for each in never]
            else:
                before = {each.key: each for each in known}
                changed = [each for each, _ in taken.values() if each != before[each.key]]
            save_attempts(transaction, self.base, changed, self.now())
        if refusal:
            raise AttemptRefusedError(f"Run {run} is refused: {refusal}. Nothing was done.")
        return self._running(taken)

    def force(self, slots: Iterable[Slot], *, run: str, root: str, by: str) -> Running:
        """Take an attempt for each slot of a run that nobody requested here, all or none; otherwise as `start`.

        `by` says who started it: a person, a backfill, a schedule. Raises AttemptRefusedError if another attempt at
        one of the slots lives, and names it. A re-execution takes the attempts of its root again.
        """
        with self.store.writing(LOG) as transaction:
            wanted = list(dict.fromkeys(slots))
            newest, leases = self._newest_of(transaction, wanted)
            taken: dict[Slot, tuple[Attempt, Lease]] = {}
            changed: list[Attempt] = []
            refusal = ""
            for place in wanted:
                found, lease = newest.get(place), leases.get(place)
                if found is not None and found.root == root:
                    refusal = refusal or self._take(transaction, found.key, found, run, root, taken)
                    continue
                if found is not None and found.state is State.RUNNING and lease is None:
                    found = self._silent(found)
                    changed.append(found)
                if lives := living(found, lease.until if lease else None):
                    refusal = refusal or f"{lives.reason}. Wait until it has ended, or cancel its run"
                    continue
                digest, most = (found.digest, found.most) if found else ("", MOST_TRIES)
                new = self.next(transaction, found, place, digest=digest, most=most)
                new = replace(new, forced=by, reason=f"forced by {by}")
                refusal = refusal or self._take(transaction, new.key, new, run, root, taken)
            if refusal:
                raise AttemptRefusedError(f"Run {run} is refused: {refusal}. Nothing was done.")
            changed += [each for each, _ in taken.values() if each != newest.get((each.flow, each.slot))]
            save_attempts(transaction, self.base, changed, self.now())
        return self._running(taken)

    # --- small parts --------------------------------------------------------------------------------------------------

    def _changes(self, attempt: Attempt, known: KnownRun) -> bool:
        """Whether `_after` may change this attempt: its lease is looked up in a transaction only then."""
        silent = attempt.state is State.RUNNING and known is KnownRun.NONE
        return silent or self._after(attempt, known, {}) is not attempt

    def _after(self, attempt: Attempt, known: KnownRun | None, leases: Mapping[Slot, Lease]) -> Attempt:
        """The attempt after what Dagster knows of its run; itself if that changes nothing."""
        match known:
            case KnownRun.SUCCEEDED:
                return self._ended(attempt, State.ENDED, "its run has ended")
            case KnownRun.FAILED:
                return self._ended(attempt, State.FAILED, "its run failed")
            case KnownRun.NONE if attempt.state is State.RUNNING:
                return attempt if (attempt.flow, attempt.slot) in leases else self._silent(attempt)
            case KnownRun.NONE if not attempt.forced and self.now() >= attempt.requested + LOST_AFTER:
                return self._ended(attempt, State.UNKNOWN, "Dagster has no run of it: it was deleted, or never made")
            case KnownRun.UNFINISHED if attempt.state is State.REQUESTED:
                old = abs(self.now() - attempt.requested) >= LOST_AFTER / 2
                return replace(attempt, requested=self.now()) if old else attempt
        return attempt

    def _silent(self, attempt: Attempt) -> Attempt:
        """A running attempt whose lease has ended, as it ends."""
        return self._ended(attempt, State.UNKNOWN, f"run {attempt.run} gave no sign of life for {LEASE.seconds} s")

    def _take(
        self,
        transaction: Transaction,
        key: str,
        attempt: Attempt | None,
        run: str,
        root: str,
        taken: dict[Slot, tuple[Attempt, Lease]],
    ) -> str:
        """Add the attempt and its lease to `taken`; otherwise return why the run is refused."""
        if attempt is None:
            return f"its attempt {key} is not in the state database, which was lost or replaced"
        newest = newest_attempts(transaction.connection, self.base, [(attempt.flow, attempt.slot)]).get(
            (attempt.flow, attempt.slot)
        )
        if newest is not None and newest.number > attempt.number:
            return f"{newest.title} ({newest.state}) follows its {attempt.title}"
        if attempt.root not in {"", root}:
            return f"{attempt.title} belongs to run {attempt.root}"
        lease = self._lease_for(transaction, attempt, run)
        if lease is None:
            return f"a process of an attempt before {attempt.title} still gives signs of life"
        begun = attempt.started or self.now()
        now = replace(attempt, state=State.RUNNING, run=run, root=root, started=begun, ended=None)
        taken[attempt.flow, attempt.slot] = (now, lease)
        return ""

    def _lease_for(self, transaction: Transaction, attempt: Attempt, run: str) -> Lease | None:
        """The lease of the slot for a process of this run; None if a process of another attempt holds it."""
        name, now = self._lease_name(attempt.flow, attempt.slot), self.clock()
        held = live_leases(transaction.connection, [name], LEASE, now=now).get(name)
        if held is not None and attempt.started is not None:
            if attempt.state is State.RUNNING and attempt.run == run:  # another process of this run shares it
                return renew_lease(transaction.connection, held, LEASE, now=now)
            release_lease(transaction.connection, held)  # of the run that this one re-executes
        return take_lease(transaction.connection, name, LEASE, now=now)

    def next(self, transaction: Transaction, newest: Attempt | None, place: Slot, *, digest: str, most: int) -> Attempt:
        """The attempt that follows the newest one of its slot; that one again if it never became a run."""
        flow, slot = place
        if newest is not None and newest.never_ran and newest.digest == digest and not newest.forced:
            return replace(newest, state=State.REQUESTED, requested=self.now(), ended=None, most=most)
        number = newest.number + 1 if newest else 1
        return Attempt(
            flow=flow,
            slot=slot,
            number=number,
            key=f"{store_id(transaction.connection)}:{flow}:{slot}:{digest}:{number}",
            digest=digest,
            state=State.REQUESTED,
            tries=tries_of(newest, digest),
            most=most,
            requested=self.now(),
            settled=newest.settled if newest else "",
        )

    def _ended(self, attempt: Attempt, state: State, reason: str) -> Attempt:
        """The attempt after its end: given up after the last try."""
        settled = attempt.digest if state in SETTLED else attempt.settled
        if attempt.forced and reason:
            reason = f"{reason}; it was forced: {attempt.reason}"
        ended = replace(attempt, state=state, reason=reason or attempt.reason, ended=self.now(), settled=settled)
        if ended.failed and ended.tries >= ended.most and ended.settled != ended.digest:
            times = f"{state} after {ended.tries} tries" if ended.tries > 1 else str(state)
            return replace(ended, state=State.GIVEN_UP, reason=f"{times}: {reason}")
        return ended

    def _newest_of(
        self, transaction: Transaction, places: Sequence[Slot]
    ) -> tuple[dict[Slot, Attempt], dict[Slot, Lease]]:
        """The newest attempts of these slots, and their leases that live."""
        newest = newest_attempts(transaction.connection, self.base, places)
        return newest, self._leases(transaction.connection, newest.values())

    def _leases(self, connection: Any, attempts: Iterable[Attempt]) -> dict[Slot, Lease]:
        """The leases that somebody holds of the slots of these attempts."""
        names = {self._lease_name(each.flow, each.slot): (each.flow, each.slot) for each in attempts}
        found = live_leases(connection, names, LEASE, now=self.clock())
        return {names[name]: lease for name, lease in found.items()}

    def _lease_name(self, flow: str, slot: str) -> str:
        return f"start of {flow} {slot} in {self.base}"

    def _running(self, taken: Mapping[Slot, tuple[Attempt, Lease]]) -> Running:
        held = {place: lease for place, (_, lease) in taken.items()}
        holding = Holding(DatabaseLeases(self.store), LEASE, self.clock, renewals=RENEWALS)
        return Running(self, {place: attempt for place, (attempt, _) in taken.items()}, held, holding)


@dataclass(frozen=True, slots=True)
class Requesting:
    """The attempts that a transaction requests; `changed` are all that it changes."""

    service: Attempts
    transaction: Transaction
    newest: Mapping[Slot, Attempt]
    leases: Mapping[Slot, Lease]
    runless: Collection[str] = ()
    changed: list[Attempt] = field(default_factory=list)
    _new: dict[Slot, Attempt] = field(default_factory=dict)

    def request(self, wanted: Wanted) -> Attempt | Verdict:
        """Request an attempt, or say why not."""
        place, now = (wanted.flow, wanted.slot), self.service.now()
        before = self._new.get(place, self.newest.get(place))
        standing = Standing(before, self.leases.get(place))
        found = standing.verdict(wanted.digest, now=now, runless=self.runless)
        if found.answer is not Answer.MAY_START:
            return found
        if before is not None and standing.overtaken(wanted.digest, self.runless):
            why = "other inputs took the place of its own before it had a run"
            self.changed.append(replace(before, state=State.REFUSED, ended=now, reason=why))
        new = self.service.next(self.transaction, before, place, digest=wanted.digest, most=wanted.most)
        self._new[place] = new = replace(new, reason=wanted.reason)
        self.changed.append(new)
        return new


@dataclass(frozen=True, slots=True)
class Running:
    """The attempts of a run in one of its processes. In a `with` block, a thread renews their leases.

    The end of the block releases them, and ends no attempt: another process of the run may go on. `end` does.
    """

    service: Attempts
    attempts: Mapping[Slot, Attempt]
    leases: Mapping[Slot, Lease]
    holding: Holding

    def __enter__(self) -> Self:
        for lease in self.leases.values():
            self.holding.hold(lease)
        self.holding.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.holding.__exit__(kind, error, trace)

    def end(self, flow: str, slot: str, state: State, reason: str = "") -> None:
        """Record the end of an attempt, and release its lease. See `Attempts.end`."""
        lease = self.leases[flow, slot]
        self.holding.let_go(lease.name)
        self.service.end(self.attempts[flow, slot].key, state, reason, lease=lease)
