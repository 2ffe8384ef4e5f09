"""Facts about quality, as values: marks, results of checks, profiles, what a slot was computed from, backfills.

Here: the values and their errors. Not here: what follows from them (`quality`), and how they are stored
(`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import NamedTuple, TypeAlias

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.errors import FeedAssetsError


class QualityError(FeedAssetsError, ValueError):
    """A command or a fact about quality cannot be taken. Nothing was changed."""


class RefusedMoveError(QualityError):
    """The command is not allowed in the present state of the slot. The message names the state."""


class SlotRevision(NamedTuple):
    """One revision of a slot. A slot that was never complete is in the making of its revision 1.

    >>> from feed_assets.datasets.slots import parse_slot
    >>> str(SlotRevision(parse_slot("raw/ads - hour 2026-11-27T15:00Z"), 2))
    'raw/ads - hour 2026-11-27T15:00Z, revision 2'
    """

    slot: Slot
    revision: int

    def __str__(self) -> str:
        return f"{self.slot}, revision {self.revision}"


class AuthorKind(StrEnum):
    """Who gives a command. A check removes its own marks, people remove the marks of people."""

    CHECK = "check"
    PERSON = "person"


class Author(NamedTuple):
    """A check or a person, by name.

    >>> str(Author.check("rows"))
    'check rows'
    """

    kind: AuthorKind
    name: str

    @classmethod
    def check(cls, name: str) -> Author:
        """A check of a dataset."""
        return cls(AuthorKind.CHECK, name)

    @classmethod
    def person(cls, name: str) -> Author:
        """A person."""
        return cls(AuthorKind.PERSON, name)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Signature(NamedTuple):
    """On record: who did something, when (seconds since 1970, UTC), and why."""

    author: Author
    at: int
    reason: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The revision of a slot is bad. The signature has the reason; `evidence` is a text, such as numbers or an address.

    `id` is chosen by the caller, so that a repeated command changes nothing. A removed mark stays on record.
    """

    id: str
    on: SlotRevision
    signature: Signature
    evidence: str = ""
    removal: Signature | None = None

    @property
    def reason(self) -> str:
        """Why the revision is bad."""
        return self.signature.reason

    @property
    def author(self) -> Author:
        """Who set the mark."""
        return self.signature.author


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a check passes on a revision of a slot; the newest result of a check counts. `at` as in Signature."""

    on: SlotRevision
    check: str
    passed: bool
    at: int


@dataclass(frozen=True, slots=True)
class Computation:
    """The revision of a slot was computed from these revisions. `run` names the run; `at` as in Signature.

    A later computation of the same revision replaces this one: its content was equal, and it is in force. If the run
    read an incomplete slot, it names the base slots of that slot, because an incomplete revision still changes.
    """

    output: SlotRevision
    inputs: tuple[SlotRevision, ...]
    run: str = ""
    at: int = 0


class SlotRange(NamedTuple):
    """Slots of one dataset, member and grain, from the first start to the last: `size` of them.

    If there are more slots between, the range has gaps.
    """

    dataset: str
    member: str
    grain: Grain
    first: int
    last: int
    size: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A reopening ended this revision of the slots of a range, without gaps. `sequence` orders reopenings.

    `equal`: the next revision has the same content. So it counts as the same revision, as after an abandoned backfill.
    """

    slots: SlotRange
    revision: int
    sequence: int
    equal: bool = False


@dataclass(frozen=True, slots=True)
class Backfill:
    """Somebody makes these slots again. It is closed when they are complete, or when it is `abandoned`."""

    id: str
    slots: tuple[Slot, ...]
    opened: Signature
    closed: Signature | None = None
    abandoned: bool = False


Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """A column of a slot: records without a value, distinct values, smallest and largest value of a number or time.

    `distinct` may be an estimate. `smallest` and `largest` are None for other types, and without values; those of a
    `time` are in seconds since 1970, UTC.
    """

    nulls: int
    distinct: int
    smallest: Number | None = None
    largest: Number | None = None
    time: bool = False

    def is_possible(self, rows: int) -> bool:
        """Whether a column of a slot with so many rows may have these numbers."""
        values = [each for each in (self.smallest, self.largest) if each is not None]
        return 0 <= self.nulls <= rows and self.distinct >= 0 and all(map(isfinite, values))


@dataclass(frozen=True, slots=True)
class Profile:
    """The records of a slot in numbers."""

    rows: int
    columns: Mapping[str, ColumnProfile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bad = [name for name, each in self.columns.items() if not each.is_possible(self.rows)]
        if self.rows < 0 or bad:
            where = f" in {', '.join(bad)}" if bad else ""
            raise QualityError(
                f"A profile of {self.rows} rows has impossible numbers{where}. Counts are 0 or more, no column has "
                "more nulls than rows, and values are finite."
            )


@dataclass(frozen=True, slots=True)
class SlotProfile:
    """The profile of a revision of a slot, and when it was made, in seconds since 1970, UTC.

    `unusual` has what was unusual in it then, by the profiles of earlier weeks, as sentences.
    """

    on: SlotRevision
    profile: Profile
    at: int
    unusual: tuple[str, ...] = ()


Fact: TypeAlias = Mark | CheckResult | Computation | Ended | Backfill | SlotProfile


class QualityState(StrEnum):
    """The quality of a revision of a slot: the first of these that holds.

    `bad`: there are effective marks. `backfilled`: it was reopened from bad, and not checked again. `passed`: its
    checks passed, or those of all of its base set. `unchecked`: none of these.
    """

    BAD = "bad"
    BACKFILLED = "backfilled"
    PASSED = "passed"
    UNCHECKED = "unchecked"


class Accepts(StrEnum):
    """The quality of inputs that a trigger accepts."""

    PASSED = "passed"
    """Its checks passed."""
    NOT_BAD = "not_bad"
    """No mark says that it is bad."""
    ANY = "any"
    """Whatever it is."""

    def accepts(self, state: QualityState) -> bool:
        """Whether a flow may read a slot in this state.

        >>> Accepts.NOT_BAD.accepts(QualityState.BACKFILLED), Accepts.PASSED.accepts(QualityState.BACKFILLED)
        (True, False)
        """
        match self:
            case Accepts.ANY:
                return True
            case Accepts.NOT_BAD:
                return state is not QualityState.BAD
            case _:
                return state is QualityState.PASSED
