"""Numbers and end positions of witnesses: whether they can be taken, and what they change. Pure.

Not here: parts (`parts`), what follows for slots (`act`).
"""

from __future__ import annotations

from typing import Final

from feed_assets.datasets.instants import instant_of, moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.dependencies.act import Act
from feed_assets.dependencies.completeness import Count
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Ends, Number

CLOCK_MAY_DIFFER: Final = 600
"""By how many seconds the clock of a reporting machine may be ahead."""


def take_number(act: Act, number: Number) -> bool:
    """Take what a witness counted; whether it is new. Raises RefusedFactError."""
    slot, rule = number.slot, act.windows.rule_of(number.slot)
    if number.records < 0:
        raise RefusedFactError(f"{slot}: {number.witness} says {number.records} records: a count cannot be negative.")
    if number.witness not in rule.witnesses:
        names = ", ".join(rule.witnesses) or "none"
        whose = slot.dataset if slot.member == NO_MEMBER else slot.member
        raise RefusedFactError(f"{slot}: {number.witness!r} is no witness of {whose}. Declared are: {names}.")
    facts = act.facts(slot)
    known = dict(facts.numbers)
    before, new = known.get(number.witness), Count(number.records, number.final, number.version)
    if before is not None and (before == new or (new.version, new.final) < (before.version, before.final)):
        return False
    known[number.witness] = new
    act.set_facts(slot, facts._replace(numbers=tuple(sorted(known.items()))))
    return True


def take_ends(act: Act, ends: Ends) -> bool:
    """Take the end positions of a slot; whether they are new. The earliest ones count. Raises RefusedFactError."""
    slot, taken = ends.slot, instant_of(ends.taken)
    rule = act.windows.rule_of(slot)
    earliest = act.windows.end(slot) + rule.grace_seconds
    if taken < earliest:
        raise RefusedFactError(
            f"{slot}: the end positions of {moment_of(taken):%Y-%m-%dT%H:%M:%SZ} are too early: "
            f"take them at {moment_of(earliest):%Y-%m-%dT%H:%M:%SZ} or later."
        )
    if taken > act.clock + CLOCK_MAY_DIFFER:
        raise RefusedFactError(ahead(str(slot), taken, act.clock))
    if not ends.ends or any(position < 0 for position in (*ends.ends.values(), *ends.begins.values())):
        raise RefusedFactError(f"{slot}: end positions are missing or negative: give one for each stream.")
    for key, begin in ends.begins.items():
        act.set_stream(slot.member, key, act.lookup(slot.member)(key).seen(begin))
    facts = act.facts(slot)
    if facts.ends and facts.taken <= taken:
        return False
    act.set_facts(slot, facts._replace(ends=tuple(sorted(ends.ends.items())), taken=taken))
    return True


def ahead(what: str, instant: int, clock: int) -> str:
    """The message that a time lies in the future."""
    return (
        f"{what}: {moment_of(instant):%Y-%m-%dT%H:%M:%SZ} is later than the store's time, "
        f"{moment_of(clock):%Y-%m-%dT%H:%M:%SZ}. Check the clock of the reporting machine."
    )
