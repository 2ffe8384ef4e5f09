"""How the base slots of a dataset become complete: what a dataset declares.

Not here: the decision for one slot (`completeness`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from typing import Final

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.dependencies.errors import DependencyError

PARTS: Final = 100_000
"""The unit of thresholds: 100,000 is all."""


class Basis(StrEnum):
    """Why a base slot counts as complete, weakest first.

    `assumed`: a buffer has passed. `published`: a valid update is in force. `covered`: all positions of the source are
    covered by parts. `counted`: all witnesses gave final numbers, and enough records are accounted for.
    """

    ASSUMED = "assumed"
    PUBLISHED = "published"
    COVERED = "covered"
    COUNTED = "counted"


_WEAKEST_FIRST: Final = tuple(Basis)


def weakest(bases: frozenset[Basis]) -> Basis:
    """The basis of a roll-up over slots of these bases."""
    return min(bases, key=_WEAKEST_FIRST.index)


@dataclass(frozen=True)
class Rule:
    """When a base slot is complete. Raises DependencyError for a rule that cannot hold.

    `witnesses` are the names of those who give numbers (`counted`). `threshold` is in parts per 100,000 of the expected
    records; up to `slack` records may be missing in any case. `assumed`: `buffer` has passed since the end of the slot,
    and nothing new came for `quiet`. `covered`: end positions count if they are taken `grace` after the end.
    `late_share` (parts per 100,000 of the accounted records) and `late_parts` limit what may come after completion
    without a new revision; None: no limit. `since` is the first batch date of the rule: earlier slots are `assumed`, by
    its buffer, so a rule can be introduced without a past that is never complete.
    """

    basis: Basis
    witnesses: tuple[str, ...] = ()
    threshold: int = 99_995
    slack: int = 0
    buffer: timedelta = timedelta(0)
    quiet: timedelta = timedelta(0)
    grace: timedelta = timedelta(0)
    late_share: int | None = None
    late_parts: int | None = None
    since: date | None = None
    buffer_seconds: int = field(init=False, repr=False, compare=False)
    quiet_seconds: int = field(init=False, repr=False, compare=False)
    grace_seconds: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= PARTS:
            raise DependencyError(f"threshold {self.threshold} is not in 0 to {PARTS}: write 99995 for 99.995 %.")
        for name in ("slack", "late_share", "late_parts"):
            if (getattr(self, name) or 0) < 0:
                raise DependencyError(f"{name} {getattr(self, name)} is negative: write 0 or more.")
        for name in ("buffer", "quiet", "grace"):
            length: timedelta = getattr(self, name)
            if length < timedelta(0):
                raise DependencyError(f"{name} {length} is negative: write 0 or more.")
            object.__setattr__(self, f"{name}_seconds", int(length.total_seconds()))
        if self.basis is Basis.COUNTED and not self.witnesses:
            raise DependencyError("the basis counted needs a witness: name who says how many records a slot has.")
        if len(set(self.witnesses)) != len(self.witnesses):
            raise DependencyError(f"a witness is named twice: {', '.join(self.witnesses)}.")


@dataclass(frozen=True)
class Declared:
    """A dataset with the rule of its base slots. `rules` has the members whose rule is another, by path.

    `checked` says whether the dataset declares checks of quality. Raises DependencyError if `rules` names a path that
    is no member.
    """

    dataset: Dataset
    rule: Rule
    checked: bool = False
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        members = {member.path for member in self.dataset.hierarchy.members}
        if unknown := sorted(self.rules.keys() - members):
            raise DependencyError(
                f"{self.dataset.name} has rules for {', '.join(unknown)}, which are no members. Its members are "
                f"{', '.join(sorted(members)[:10])}."
            )
        coarse = not self.dataset.base.seconds and self.dataset.base is not Grain.DAY
        if coarse and any(rule.since for rule in (self.rule, *self.rules.values())):
            raise DependencyError(
                f"{self.dataset.name} has slots of a {self.dataset.base}, whose rule has no `since`: leave it out."
            )

    def rule_of(self, member: str) -> Rule:
        """The rule of a member's base slots."""
        return self.rules.get(member, self.rule)
