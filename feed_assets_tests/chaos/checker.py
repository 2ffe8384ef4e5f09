"""The checker: whether histories and the final storage show that a guarantee was broken.

Here: one function for each guarantee. Not here: running workers (see `run`). It uses nothing of the library: it judges
by what workers noted, by the contents of files, and by the plain rule.

- whole: no reader ever saw a torn, mixed or damaged update, nor does storage hold a valid one.
- staged: nobody saw a staged or rejected update, nor an invalidated one after the invalidation was acknowledged.
- lost: a publication that was acknowledged or seen is in force until it is invalidated, superseded, or removed by
  retention's rules.
- retention: it removed only what as many newer updates as it keeps had outdated, and nothing that was pinned.
- watched: at the end a watcher knows the update in force of each partition, and has reported each that is there.
- landed: a landing counts in all of its hours or in none; it counts for good once it was acknowledged or seen; its raw
  files are its own.
- left: after the last retention there is nothing but what it keeps.
- answered: nobody failed by an error that is not the library's, waited longer than allowed, or ended by itself;
  readers, watchers and retention failed only if storage was not available.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from feed_assets_tests.chaos.history import Event
from feed_assets_tests.chaos.proof import flaw, parts_of
from feed_assets_tests.file_feed import plain_reader

NEVER = float("inf")

_MAY_LOSE = frozenset({"publish", "reject", "invalidate", "pin", "land"})
"""The acts that may fail because another worker was faster, or took this worker for dead."""


class Violation(NamedTuple):
    """A guarantee that was broken, and how that shows."""

    guarantee: str
    how: str


@dataclass(frozen=True, slots=True)
class Final:
    """The end of a run. `objects` is storage before the last retention, `left` the keys after it.

    `watchers` has the updates that each watcher knows, by partition; `landed` the hours that count by digest, and
    `landings` the hours that each digest has.
    """

    location: str
    partitions: Sequence[str]
    keep: int
    objects: Mapping[str, bytes]
    left: Sequence[str]
    watchers: Mapping[str, Mapping[str, str]]
    landed: Mapping[str, Sequence[str]]
    landings: Mapping[str, Sequence[str]]
    misplaced: Sequence[str] = ()

    def valid(self, partition: str) -> dict[str, plain_reader.Files]:
        """The valid updates of a partition by the plain rule."""
        prefix = f"{self.location}/{partition}/"
        below = {key: data for key, data in self.objects.items() if key.startswith(prefix)}
        return plain_reader.updates(below, prefix)


@dataclass(slots=True)
class _Act:
    """An act from its `begin` to its `end` (NEVER if it was not acknowledged)."""

    kind: str
    fields: Event
    begun: float
    ended: float = NEVER
    result: Event = field(default_factory=dict)
    claimed: str = ""
    manifest_at: float = NEVER
    """When the worker first began to write the manifest of its update."""
    error: str = ""

    @property
    def partition(self) -> str:
        return str(self.fields["partition"])

    @property
    def name(self) -> str:
        """The update that it is about: acknowledged, named, or the last that it tried to claim."""
        return str(self.result.get("name") or self.fields.get("name") or self.claimed)


class Seen(NamedTuple):
    """An update that was valid for a reader or a watcher between two times, or is valid at the end of the run.

    `parts` is what its files say of themselves; None if they were not read. `attempts` are those that may have written
    it.
    """

    who: str
    partition: str
    name: str
    parts: Sequence[Sequence[Any] | None] | None
    attempts: set[str]
    begun: float = NEVER
    ended: float = NEVER

    def __str__(self) -> str:
        return f"{self.who} {self.partition}/{self.name}"


class Run:
    """The acts of a run, found in its histories."""

    def __init__(self, events: Sequence[Event], final: Final) -> None:
        self.events = events
        self.final = final
        acts = _acts(events)
        self.acts = list(acts.values())
        self.published = [act for act in self.acts if act.kind == "publish"]
        self.reads = [act for act in self.acts if act.kind == "read" and act.ended < NEVER]
        self.attempts = {act.fields["attempt"]: act for act in self.acts if "attempt" in act.fields}
        self.without_files: dict[tuple[str, str], set[str]] = {}
        for attempt, act in self.attempts.items():
            if not act.fields["files"]:
                self.without_files.setdefault((act.partition, act.claimed), set()).add(attempt)
        self.invalidated: dict[tuple[str, str], tuple[float, float]] = {}
        self.out_of_force: dict[str, float] = {}
        for act in self.acts:
            if act.kind == "invalidate":
                begun, ended = self.invalidated.get((act.partition, act.name), (NEVER, NEVER))
                self.invalidated[act.partition, act.name] = min(begun, act.begun), min(ended, act.ended)
                # By attempt: a writer that stood still since before its claim may use the name of a removed update.
                attempts = self._written_by(act.partition, act.name, act.fields["attempts"])
                for attempt in attempts if len(attempts) == 1 else ():
                    self.out_of_force[attempt] = min(self.out_of_force.get(attempt, NEVER), act.ended)
        self.planned: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            for partition, name, _ in event["updates"] if event["event"] == "planned" else ():
                self.planned.setdefault((partition, name), []).append(event)
        self.seen = [*self._read(), *self._reported(acts), *self._at_the_end()]
        self.seen_at: dict[str, float] = {}
        for seen in self.seen:
            for attempt in seen.attempts if len(seen.attempts) == 1 else ():
                self.seen_at[attempt] = min(self.seen_at.get(attempt, NEVER), seen.ended)

    def _read(self) -> Iterator[Seen]:
        for act in self.acts:
            if act.ended < NEVER:
                for name, parts in _updates_read(act):
                    attempts = self._written_by(act.partition, name, (part[0] for part in parts if part))
                    yield Seen(
                        f"{act.fields['worker']} read", act.partition, name, parts, attempts, act.begun, act.ended
                    )

    def _reported(self, acts: Mapping[tuple[str, int], _Act]) -> Iterator[Seen]:
        for event in self.events:
            if event["event"] == "reported" and event["in_force"]:
                partition, name = event["partition"], event["in_force"]
                attempts, begun = self._written_by(partition, name, event["attempts"]), acts[_key(event)].begun
                yield Seen(f"{event['worker']} reported", partition, name, None, attempts, begun, event["at"])

    def _at_the_end(self) -> Iterator[Seen]:
        for partition in self.final.partitions:
            for name, files in self.final.valid(partition).items():
                parts = parts_of(data for _, data in files)
                attempts = self._written_by(partition, name, (part.attempt for part in parts if part))
                yield Seen("storage has at the end", partition, name, parts, attempts)

    def _written_by(self, partition: str, name: str, stated: Iterable[str]) -> set[str]:
        """The attempts that its files state. An update without files may be of each that claimed its name for none."""
        return set(stated) or self.without_files.get((partition, name), set())

    def in_force(self) -> Iterator[tuple[_Act, float]]:
        """The publications that nobody even began to invalidate, and since when it is certain that they are in force.

        A reader who saw the update of a publisher that was killed knows it as well as a publisher that went on.
        """
        for act in self.published:
            since = act.ended if act.error else min(act.ended, self.seen_at.get(act.fields["attempt"], NEVER))
            if since < NEVER and (act.partition, act.name) not in self.invalidated:
                yield act, since


def _acts(events: Sequence[Event]) -> dict[tuple[str, int], _Act]:
    acts: dict[tuple[str, int], _Act] = {}
    for event in events:
        if event["event"] == "begin":
            acts[_key(event)] = _Act(event["kind"], event, event["at"])
        elif event["event"] == "claiming":
            acts[_key(event)].claimed = event["name"]
        elif event["event"] == "manifest":
            acts[_key(event)].manifest_at = min(acts[_key(event)].manifest_at, event["at"])
        elif event["event"] == "failed":
            acts[_key(event)].error = event["error"]
        elif event["event"] == "end":
            acts[_key(event)].ended, acts[_key(event)].result = event["at"], event
    return acts


def _key(event: Event) -> tuple[str, int]:
    return event["worker"], event["act"]


def _updates_read(act: _Act) -> Sequence[tuple[str, Sequence[Sequence[Any] | None]]]:
    """The updates that an act read, and what their files say of themselves."""
    if act.kind == "read history":
        return list(act.result["updates"])
    parts = act.result.get("parts") if act.kind in {"read", "pin"} else None
    return () if parts is None or act.result["name"] is None else [(act.result["name"], parts)]


def check(events: Sequence[Event], final: Final) -> list[Violation]:
    """Every violation."""
    run = Run(events, final)
    found: list[Violation] = []
    rules = {
        "whole": _whole,
        "staged": _staged,
        "lost": _lost,
        "retention": _retention,
        "watched": _watched,
        "landed": _landed,
        "left": _left,
        "answered": _answered,
    }
    for guarantee, rule in rules.items():
        found += [Violation(guarantee, how) for how in rule(run)]
    return found


def seen_by_readers(events: Sequence[Event], final: Final) -> list[Violation]:
    """The violations that readers saw; it needs no final storage."""
    return [each for each in check(events, final) if each.guarantee in {"whole", "staged"}]


def _whole(run: Run) -> Iterator[str]:
    for seen in run.seen:
        others = {run.attempts[each].partition for each in seen.attempts if each in run.attempts} - {seen.partition}
        if how := flaw(seen.parts or ()):
            yield f"{seen}, which is {how}"
        elif others:
            yield f"{seen}, which is mixed: files of the partition {', '.join(sorted(others))}"
        elif not seen.attempts:
            yield f"{seen}, which is torn: nobody wrote an update without files there"


def _staged(run: Run) -> Iterator[str]:
    # Several attempts only if they claimed one name for no files: a violation for all of them is one for certain.
    for seen in run.seen:
        acts = [run.attempts[each] for each in seen.attempts if each in run.attempts]
        if acts and all(act.kind == "reject" for act in acts):
            yield f"{seen}, which was rejected"
        elif acts and all(act.manifest_at >= seen.ended for act in acts):
            yield f"{seen}, which was staged: its writer had not begun to publish it"
        if seen.attempts and all(seen.begun > run.out_of_force.get(each, NEVER) for each in seen.attempts):
            yield f"{seen}, which was invalidated before"


def _lost(run: Run) -> Iterator[str]:
    sure = list(run.in_force())
    planned = {place: min(event["at"] for event in events) for place, events in run.planned.items()}
    there: dict[str, list[tuple[float, float, str]]] = {}
    for act, since in sure:
        there.setdefault(act.partition, []).append((since, planned.get((act.partition, act.name), NEVER), act.name))
    for act in run.reads:
        known = [name for since, until, name in there.get(act.partition, ()) if since < act.begun and act.ended < until]
        newest = max(known, default="")
        if newest > (act.result["name"] or ""):
            yield f"{act.fields['worker']} read {act.partition}/{act.result['name']} after {newest} was published"
    for act, _ in sure:
        if act.name not in run.final.valid(act.partition) and (act.partition, act.name) not in run.planned:
            yield f"{act.partition}/{act.name} was published, and is gone without having been removed"


def _retention(run: Run) -> Iterator[str]:
    begun = {_key(act.fields): act.begun for act in run.acts}
    for act, _ in run.in_force():
        plans = run.planned.get((act.partition, act.name), [])
        if not plans or act.name in run.final.valid(act.partition):
            continue
        newer = [
            sum(_may_have_been_valid(run, each, act, begun[_key(event)], event["at"]) for each in run.published)
            for event in plans
        ]
        if max(newer) < run.final.keep:
            yield f"{act.partition}/{act.name} was removed, with {max(newer)} newer updates at most"
    for act in run.acts:
        if act.kind == "pin" and act.result.get("lost"):
            yield f"{act.partition}/{act.name} lost files while it was pinned"


def _may_have_been_valid(run: Run, newer: _Act, than: _Act, after: float, before: float) -> bool:
    """Whether an update may have been valid in this time, and is newer."""
    invalidated = run.invalidated.get((newer.partition, newer.name), (NEVER, NEVER))[1]
    return newer.partition == than.partition and newer.name > than.name and newer.begun < before and invalidated > after


def _watched(run: Run) -> Iterator[str]:
    for watcher, known in run.final.watchers.items():
        ticks = [act.ended for act in run.acts if act.kind == "watch" and act.fields["watcher"] == watcher]
        first = min(ticks, default=NEVER)
        # The report of an invalidation names the update that is in force now, which may not have been reported before.
        reported = {
            (event["partition"], name)
            for event in run.events
            if event["event"] == "reported" and event["watcher"] == watcher
            for name in (event["name"], event["in_force"])
        }
        for partition in run.final.partitions:
            valid = run.final.valid(partition)
            if known.get(partition, "") != max(valid, default=""):
                yield f"{watcher} knows {partition}/{known.get(partition)}, and {max(valid, default=None)} is in force"
        for act in run.published:
            there = first < act.begun and act.ended < NEVER and act.name in run.final.valid(act.partition)
            if there and (act.partition, act.name) not in reported:
                yield f"{watcher} never reported {act.partition}/{act.name}"


def _landed(run: Run) -> Iterator[str]:
    views: list[tuple[float, float, Mapping[str, Sequence[str]]]] = [
        (act.begun, act.ended, act.result["landings"])
        for act in run.acts
        if act.kind == "read raw" and act.ended < NEVER
    ]
    counts = [(act.fields["digest"], act.ended) for act in run.acts if act.kind == "land" and act.ended < NEVER]
    counts += [(digest, ended) for _, ended, view in views for digest in view]
    since: dict[str, float] = {}
    for digest, at in counts:
        since[digest] = min(since.get(digest, NEVER), at)
    for begun, _, view in (*views, (NEVER, NEVER, run.final.landed)):
        for digest, hours in view.items():
            if sorted(hours) != sorted(run.final.landings[digest]):
                yield f"landing {digest} counted in {sorted(hours)} of {sorted(run.final.landings[digest])}"
        for digest, at in since.items():
            if at < begun and digest not in view:
                yield f"landing {digest} was acknowledged or seen, and counts nowhere any more"
    yield from (
        f"{key} is not the raw file of a landing that counts, or has other content" for key in run.final.misplaced
    )


def _left(run: Run) -> Iterator[str]:
    final = run.final
    kept = {
        (partition, name) for partition in final.partitions for name in sorted(final.valid(partition))[-final.keep :]
    }
    update = r"(?P<partition>[^/]+)/(?P<name>\d{8}\.\d{6})"
    shapes = [
        re.compile(rf"{re.escape(final.location)}/{shape}")
        for shape in (rf"{update}/[^/]+", rf"\.feed/claims/{update}", rf"\.feed/records/{update}\..*")
    ]
    seen = set()
    for key in final.left:
        match = next((found for shape in shapes if (found := shape.fullmatch(key))), None)
        if match is None or (match["partition"], match["name"]) not in kept:
            yield f"{key} is left"
        elif key.endswith("/_SUCCESS"):
            seen.add((match["partition"], match["name"]))
    yield from (f"{partition}/{name} should have been kept" for partition, name in sorted(kept - seen))


def _answered(run: Run) -> Iterator[str]:
    for event in run.events:
        if event["event"] in {"crashed", "hung", "slow", "exited"}:
            details = {name: value for name, value in event.items() if name not in {"event", "at", "worker", "act"}}
            yield f"{event['worker']} {event['event']}: {details}"
    for act in run.acts:
        if act.error not in {"", "UnavailableError"} and act.kind not in _MAY_LOSE:
            yield f"{act.fields['worker']} {act.kind} failed: {act.error}"
