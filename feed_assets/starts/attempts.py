"""Attempts at slots of flows: at most one of a slot is alive, in any order of daemons, runs, crashes and deleted runs.

Here: requesting an attempt, taking it at the start of its run, forcing one, ending it, and the lease of its processes.
Each method is one transaction that changes attempts, leases and the log `dependencies` together. Not here: why a slot
is due, pausing a flow and how many run at once (the gate), and Dagster, which callers ask.

An attempt saves work. That nothing is published twice is decided by storage (`file_feed.starts`): a process that
stood still until its lease had ended may go on beside the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self

from feed_assets.leases.holding import Holding
from feed_assets.leases.in_database import DatabaseLeases, live_leases, release_lease, renew_lease, take_lease
from feed_assets.leases.port import Lease
from feed_assets.starts.attempt import (
    LEASE,
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

Slot = tuple[str, str]
"""A flow and one of its slots, by their names."""


class KnownRun(StrEnum):
    """What Dagster knows of the runs of an attempt's key. A deleted run is not known."""

    UNFINISHED = "unfinished"
    FINISHED = "finished"
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
class Attempts:
    """The attempts below a base. All methods raise StoreError.

    `base` is the URI of the base: several may share the database. `now` is the installation's clock, for the log;
    leases, pauses and the times of attempts are by `clock`, the machine's.
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
            return newest_attempts(connection, self.base, flow, slots)

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

    def verdicts(self, flow: str, digests: Mapping[str, str]) -> dict[str, Verdict]:
        """Whether an attempt may be requested now for each slot and the digest of its inputs; changes nothing."""
        if not digests or not self.store.exists():
            return {slot: Verdict(Answer.MAY_START) for slot in digests}
        with self.store.reading() as connection:
            newest = newest_attempts(connection, self.base, flow, digests)
            # Most slots have a result for their inputs: their leases are not looked up.
            leases = self._leases(connection, [each for each in newest.values() if each.settled != digests[each.slot]])
        return {
            slot: self._verdict(newest.get(slot), digest, leases.get((flow, slot))) for slot, digest in digests.items()
        }

    # --- the gate -----------------------------------------------------------------------------------------------------

    def end_lost(self, known_run: Callable[[Attempt], KnownRun]) -> list[Attempt]:
        """End the attempts whose run is gone, and return them. Call it first in a tick.

        A requested attempt ends if Dagster has no unfinished run of its key: as `failed` if a run has finished, as
        `unknown` if there is none LEASE after the request. A running attempt whose lease has ended is `unknown`.
        `known_run` is asked about requested attempts, outside of any transaction.
        """
        lost: dict[str, tuple[State, str]] = {}
        alive = self.alive()
        for each in alive:
            if each.state is State.REQUESTED:
                found = known_run(each)
                if found is KnownRun.FINISHED:
                    lost[each.key] = State.FAILED, "its run ended before it began to work"
                elif found is KnownRun.NONE and self.clock() >= each.requested + LEASE:
                    lost[each.key] = State.UNKNOWN, "Dagster has no run of it: it was deleted, or never made"
        if not lost and all(each.state is State.REQUESTED for each in alive):
            return []
        with self.store.writing(LOG) as transaction:
            current = attempts_alive(transaction.connection, self.base)
            leases = self._leases(transaction.connection, current)
            ended = []
            for each in current:
                if each.state is State.REQUESTED and each.key in lost:
                    ended.append(self._ended(each, *lost[each.key]))
                elif each.state is State.RUNNING and (each.flow, each.slot) not in leases:
                    silent = f"run {each.run} gave no sign of life for {LEASE.seconds} s"
                    ended.append(self._ended(each, State.UNKNOWN, silent))
            save_attempts(transaction, self.base, ended, self.now())
        return ended

    def request(self, wanted: Sequence[Wanted]) -> list[Attempt | Verdict]:
        """Put an attempt on record for each slot that may start; ask Dagster for a run with its key afterwards.

        The answers are in the order of `wanted`: the attempt, or why there is none.
        """
        if not wanted:
            return []
        with self.store.writing(LOG) as transaction:
            answers: list[Attempt | Verdict] = []
            newest, leases = self._newest_of(transaction, [(each.flow, each.slot) for each in wanted])
            for each in wanted:
                place = each.flow, each.slot
                found = self._verdict(newest.get(place), each.digest, leases.get(place))
                if found.answer is not Answer.MAY_START:
                    answers.append(found)
                    continue
                new = self._next(transaction, newest.get(place), place, digest=each.digest, most=each.most)
                new = replace(new, reason=each.reason)
                answers.append(new)
                newest[place] = new
            save_attempts(transaction, self.base, [each for each in answers if isinstance(each, Attempt)], self.now())
        return answers

    def give_up(self, flow: str, slot: str, digest: str, *, reason: str) -> Attempt | Verdict:
        """Give up these inputs of a slot without a run, on record; returns why not if an attempt lives."""
        with self.store.writing(LOG) as transaction:
            newest, leases = self._newest_of(transaction, [(flow, slot)])
            found = self._verdict(newest.get((flow, slot)), digest, leases.get((flow, slot)))
            if found.answer in {Answer.LIVES, Answer.OVER}:
                return found
            new = self._next(transaction, newest.get((flow, slot)), (flow, slot), digest=digest, most=MOST_TRIES)
            new = replace(new, state=State.GIVEN_UP, reason=reason, ended=self.clock())
            save_attempts(transaction, self.base, [new], self.now())
        return new

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
            changed = [ended]
            newest = newest_attempts(transaction.connection, self.base, ended.flow, [ended.slot])[ended.slot]
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
                    silent = f"run {found.run} gave no sign of life for {LEASE.seconds} s"
                    found = self._ended(found, State.UNKNOWN, silent)
                    changed.append(found)
                if lives := living(found, lease.until if lease else None):
                    refusal = refusal or f"{lives.reason}. Wait until it has ended, or cancel its run"
                    continue
                digest, most = (found.inputs, found.most) if found else ("", MOST_TRIES)
                new = self._next(transaction, found, place, digest=digest, most=most)
                new = replace(new, forced=by, reason=f"forced by {by}")
                refusal = refusal or self._take(transaction, new.key, new, run, root, taken)
            if refusal:
                raise AttemptRefusedError(f"Run {run} is refused: {refusal}. Nothing was done.")
            changed += [each for each, _ in taken.values() if each != newest.get((each.flow, each.slot))]
            save_attempts(transaction, self.base, changed, self.now())
        return self._running(taken)

    def record_read(self, key: str, digest: str) -> Attempt | None:
        """Record the digest of the inputs that the run of an attempt has read; None if it is not on record."""
        with self.store.writing(LOG) as transaction:
            attempt = attempt_of_key(transaction.connection, self.base, key)
            if attempt is None or attempt.read == digest:
                return attempt
            kept = attempts_of(transaction.connection, self.base, attempt.flow, attempt.slot)
            before = next((each for each in kept if each.number == attempt.number - 1), None)
            tries = attempt.tries if digest == attempt.digest else tries_of(before, digest)
            read = replace(attempt, read=digest, tries=tries)
            save_attempts(transaction, self.base, [read], self.now())
        return read

    # --- small parts --------------------------------------------------------------------------------------------------

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
        newest = newest_attempts(transaction.connection, self.base, attempt.flow, [attempt.slot]).get(attempt.slot)
        if newest is not None and newest.number > attempt.number:
            return f"{newest.title} ({newest.state}) follows its {attempt.title}"
        if attempt.root not in {"", root}:
            return f"{attempt.title} belongs to run {attempt.root}"
        lease = self._lease_for(transaction, attempt, run)
        if lease is None:
            return f"a process of an attempt before {attempt.title} still gives signs of life"
        begun = attempt.started or self.clock()
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

    def _next(
        self, transaction: Transaction, newest: Attempt | None, place: Slot, *, digest: str, most: int
    ) -> Attempt:
        """The attempt that follows the newest one of its slot."""
        flow, slot = place
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
            requested=self.clock(),
            settled=newest.settled if newest else "",
        )

    def _ended(self, attempt: Attempt, state: State, reason: str) -> Attempt:
        """The attempt after its end: given up after the last try."""
        settled = attempt.inputs if state in SETTLED else attempt.settled
        ended = replace(attempt, state=state, reason=reason, ended=self.clock(), settled=settled)
        if ended.failed and ended.tries >= ended.most and ended.settled != ended.inputs:
            times = f"{state} after {ended.tries} tries" if ended.tries > 1 else str(state)
            return replace(ended, state=State.GIVEN_UP, reason=f"{times}: {reason}")
        return ended

    def _newest_of(
        self, transaction: Transaction, places: Sequence[Slot]
    ) -> tuple[dict[Slot, Attempt], dict[Slot, Lease]]:
        """The newest attempts of these slots, and their leases that live."""
        by_flow: dict[str, list[str]] = {}
        for flow, slot in places:
            by_flow.setdefault(flow, []).append(slot)
        newest = {
            (flow, slot): attempt
            for flow, slots in by_flow.items()
            for slot, attempt in newest_attempts(transaction.connection, self.base, flow, slots).items()
        }
        return newest, self._leases(transaction.connection, newest.values())

    def _leases(self, connection: Any, attempts: Iterable[Attempt]) -> dict[Slot, Lease]:
        """The leases that somebody holds of the slots of these attempts."""
        names = {self._lease_name(each.flow, each.slot): (each.flow, each.slot) for each in attempts}
        found = live_leases(connection, names, LEASE, now=self.clock())
        return {names[name]: lease for name, lease in found.items()}

    def _verdict(self, newest: Attempt | None, digest: str, lease: Lease | None) -> Verdict:
        return verdict(newest, digest, lease_until=lease.until if lease else None, now=self.clock())

    def _lease_name(self, flow: str, slot: str) -> str:
        return f"start of {flow} {slot} in {self.base}"

    def _running(self, taken: Mapping[Slot, tuple[Attempt, Lease]]) -> Running:
        held = {place: lease for place, (_, lease) in taken.items()}
        holding = Holding(DatabaseLeases(self.store), LEASE, self.clock, renewals=RENEWALS, keeps=True)
        return Running(self, {place: attempt for place, (attempt, _) in taken.items()}, held, holding)


@dataclass(frozen=True, slots=True)
class Running:
    """The attempts of a run in one of its processes. In a `with` block, a thread renews their leases.

    The end of the block ends no attempt: another process of the run may go on. `end` does.
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

    def read(self, flow: str, slot: str, digest: str) -> None:
        """Record the digest of the inputs that the run has read: they replace those it was requested for."""
        self.service.record_read(self.attempts[flow, slot].key, digest)

    def end(self, flow: str, slot: str, state: State, reason: str = "") -> None:
        """Record the end of an attempt, and release its lease. See `Attempts.end`."""
        lease = self.leases[flow, slot]
        self.holding.let_go(lease.name)
        self.service.end(self.attempts[flow, slot].key, state, reason, lease=lease)
