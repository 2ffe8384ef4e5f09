"""The rule for one base slot: complete or not, by the facts about it. Pure; all numbers are integers.

Not here: revisions and roll-ups (`slot_states`), and how facts come to be (`streams`, `service`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from feed_assets.dependencies.positions import Ranges, size
from feed_assets.dependencies.rules import PARTS, Basis, Rule

NEVER: Final = -(2**62)
"""A clock before all times."""

FLAGS: Final = ("empty", "holiday", "over", "disagree", "overlap", "gap", "lost", "waived", "backfill", "folded")
"""What may be said of a slot, complete or not.

`empty`: nothing is there. `holiday`: nothing is to be delivered. `over`: more records than expected. `disagree`: the
witnesses differ by more than the threshold. `overlap`: positions were covered twice. `gap`: positions between parts are
covered by none. `lost`: the source has dropped positions unread. `waived`: a person said that it need not be complete.
`backfill`: a backfill is open. `folded`: the slot is old, and only its hour is kept.
"""


class Count(NamedTuple):
    """What a witness says: how many records the source has for a slot, and whether that is final."""

    records: int
    final: bool
    version: int = 0


class BaseFacts(NamedTuple):
    """All that is known of a base slot. The defaults are what is known without any fact.

    `published`: `update` is in force, with the content `digest`. `assumed`: a listing showed `records`, `files` and
    `content`, which was new at the instant `changed`; `revised` is the content with which the revision began. `counted`
    and `covered`: parts have `landed` records; the lengths of their ranges are `length` in all, and their union is
    `spans` for each stream. `numbers` has a number for each witness, `ends` the end position of each stream, `taken` at
    an instant. `waivers` are ids, `backfill` the reason of an open backfill. `late` records in `late_parts` came since
    the slot was complete.
    """

    update: str | None = None
    digest: str = ""
    records: int | None = None
    files: int = 0
    content: str = ""
    changed: int = NEVER
    revised: str = ""
    landed: int = 0
    parts: int = 0
    length: int = 0
    spans: tuple[tuple[str, Ranges], ...] = ()
    numbers: tuple[tuple[str, Count], ...] = ()
    ends: tuple[tuple[str, int], ...] = ()
    taken: int = 0
    waivers: tuple[str, ...] = ()
    backfill: str = ""
    late: int = 0
    late_parts: int = 0

    @property
    def overlap(self) -> int:
        """How many positions the slot's parts cover more than once."""
        return self.length - sum(size(ranges) for _, ranges in self.spans)

    @property
    def accounted(self) -> int:
        """The records that are accounted for; those of positions that two parts name count once."""
        return max(self.landed - self.overlap, 0) if self.parts else self.records or 0


class Verdict(NamedTuple):
    """Whether a base slot's rule holds, and the numbers behind it. `expected` is None if nobody has said it."""

    complete: bool
    accounted: int
    expected: int | None
    flags: tuple[str, ...]
    check_at: int | None = None
    """The next instant at which the verdict may change without any new fact."""


NO_FACTS: Final = BaseFacts()


def verdict(
    facts: BaseFacts, rule: Rule, *, end: int, clock: int, holiday: bool = False, uncovered: int = 0, lost: int = 0
) -> Verdict:
    """The verdict on a base slot whose window ends at `end`, at the time `clock`.

    `uncovered` is the number of positions below the end positions that no part covers; `lost` is the number of those
    that the source has dropped.
    """
    expected, flags = _expected(facts, rule, uncovered)
    if holiday:
        expected = 0 if expected is None else expected
        flags.add("holiday")
    if facts.overlap:
        flags.add("overlap")
    if lost:
        flags.add("lost")
    if expected is not None and facts.accounted > expected and rule.basis is not Basis.COVERED:
        flags.add("over")
    if facts.waivers:
        flags.add("waived")
    if facts.backfill:
        flags.add("backfill")
    complete, check_at = _decided(facts, rule, expected, end=end, holiday=holiday)
    ended = check_at is None or clock >= check_at
    shown = tuple(flag for flag in FLAGS if flag in flags)
    return Verdict(complete and ended, facts.accounted, expected, shown, None if ended else check_at)


def holds(accounted: int, expected: int, rule: Rule) -> bool:
    """Whether enough of the expected records are accounted for.

    >>> rule = Rule(Basis.COUNTED, ("source",))
    >>> holds(99_994, 100_000, rule), holds(99_995, 100_000, rule), holds(0, 0, rule)
    (False, True, True)
    """
    return accounted * PARTS >= expected * rule.threshold or expected - accounted <= rule.slack


def _expected(facts: BaseFacts, rule: Rule, uncovered: int) -> tuple[int | None, set[str]]:
    """How many records a slot should have, if that is known; and what the numbers show."""
    flags: set[str] = set()
    match rule.basis:
        case Basis.COUNTED:
            numbers = [number.records for witness, number in facts.numbers if witness in rule.witnesses]
            if not numbers:
                return None, flags
            low, high = min(numbers), max(numbers)
            if (high - low) * PARTS > high * (PARTS - rule.threshold) and high - low > rule.slack:
                flags.add("disagree")
            if high == 0 and facts.accounted == 0:
                flags.add("empty")
            return high, flags
        case Basis.COVERED:
            if not facts.ends:
                return None, flags
            expected = facts.accounted + uncovered
            return expected, flags if expected else {"empty"}
        case Basis.ASSUMED:
            return None, flags if facts.files else {"empty"}
        case _:
            return None, flags


def _decided(facts: BaseFacts, rule: Rule, expected: int | None, *, end: int, holiday: bool) -> tuple[bool, int | None]:
    """Whether the facts suffice, and from when on; None: at any time."""
    if facts.backfill:
        return False, None
    if rule.basis is Basis.PUBLISHED and facts.update is not None:
        return True, None
    if rule.basis is Basis.ASSUMED and not facts.waivers:
        return True, max(end + rule.buffer_seconds, facts.changed + rule.quiet_seconds)
    nothing_due = holiday and not facts.numbers
    return bool(facts.waivers) or nothing_due or _counts_hold(facts, rule, expected), end


def _counts_hold(facts: BaseFacts, rule: Rule, expected: int | None) -> bool:
    """Whether the numbers that the rule asks for are there, and enough records are accounted for."""
    if rule.basis is Basis.COUNTED:
        final = {witness for witness, number in facts.numbers if number.final}
        numbers = [number.records for witness, number in facts.numbers if witness in rule.witnesses]
        return final.issuperset(rule.witnesses) and all(holds(facts.accounted, each, rule) for each in numbers)
    return rule.basis is Basis.COVERED and expected is not None and holds(facts.accounted, expected, rule)
