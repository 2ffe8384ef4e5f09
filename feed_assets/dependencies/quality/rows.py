"""The facts of quality as rows, and back. Not here: tables, and what the facts mean (`marks`).

A row has the kind of the fact, a key, and plain JSON. A fact replaces the stored one of its kind and key. Keys are
texts without a limit of length; a table may keep a digest of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import parse_slot
from feed_assets.dependencies.quality.marks import (
    Author,
    AuthorKind,
    Backfill,
    CheckResult,
    ColumnProfile,
    Computation,
    Ended,
    Fact,
    Mark,
    Profile,
    QualityError,
    Signature,
    SlotProfile,
    SlotRange,
    SlotRevision,
)


class Row(NamedTuple):
    """A fact as it is stored; `content` is JSON.

    `kind` is `mark`, `check`, `profile`, `computation`, `ended` or `backfill`.
    """

    kind: str
    key: str
    content: dict[str, Any]


def to_row(fact: Fact) -> Row:
    """The row of a fact.

    >>> result = CheckResult(SlotRevision(parse_slot("clean-ads/v1.0 - day 2026-11-27"), 1), "audit", True, 1795794900)
    >>> to_row(result).key
    'clean-ads/v1.0 - day 2026-11-27 1 audit'
    >>> from_row(to_row(result)) == result
    True
    """
    match fact:
        case Mark(id, on, signature, evidence, removal):
            content = {"id": id, **_on(on), **_signed(signature), "evidence": evidence}
            if removal is not None:
                content["removal"] = _signed(removal)
            return Row("mark", id, content)
        case CheckResult(on, check, passed, at):
            return Row("check", f"{_text(on)} {check}", {**_on(on), "check": check, "passed": passed, "at": at})
        case Computation(output, inputs, run, at):
            read = [[str(each.slot), each.revision] for each in inputs]
            return Row("computation", _text(output), {**_on(output), "inputs": read, "run": run, "at": at})
        case Ended(slots, revision, sequence, equal):
            key = " ".join(map(str, (*slots[:5], revision, sequence, "equal" if equal else "other")))
            name, member, grain, *numbers = slots
            plain = [name, member, str(grain), *numbers]
            return Row("ended", key, {"range": plain, "revision": revision, "sequence": sequence, "equal": equal})
        case Backfill(id, of_slots, opened, closed, abandoned):
            content = {"id": id, "slots": [*map(str, of_slots)], **_signed(opened), "abandoned": abandoned}
            if closed is not None:
                content["closed"] = _signed(closed)
            return Row("backfill", id, content)
        case SlotProfile(on, profile, at, unusual):
            columns = {
                name: [each.nulls, each.distinct, each.smallest, each.largest, each.time]
                for name, each in profile.columns.items()
            }
            content = {**_on(on), "rows": profile.rows, "columns": columns, "at": at, "unusual": [*unusual]}
            return Row("profile", _text(on), content)


def from_row(row: Row) -> Fact:
    """The fact of a row. Raises QualityError for a row that `to_row` does not write."""
    with _reading(row):
        return _fact(row.kind, row.content)


@contextmanager
def _reading(row: Row) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise QualityError(
            f"The stored {row.kind} {row.key!r} cannot be read: {type(error).__name__}: {error}. It was written by a "
            "newer version, or changed by hand. Update feed_assets, or delete the row."
        ) from error


def _fact(kind: str, content: Mapping[str, Any]) -> Fact:
    match kind:
        case "mark":
            removal = _signature(content["removal"]) if "removal" in content else None
            return Mark(content["id"], _revision(content), _signature(content), content["evidence"], removal)
        case "check":
            return CheckResult(_revision(content), content["check"], content["passed"], content["at"])
        case "computation":
            read = tuple(SlotRevision(parse_slot(slot), revision) for slot, revision in content["inputs"])
            return Computation(_revision(content), read, content["run"], content["at"])
        case "ended":
            dataset, member, grain, first, last, size = content["range"]
            slots = SlotRange(dataset, member, Grain.named(grain), first, last, size)
            return Ended(slots, content["revision"], content["sequence"], content["equal"])
        case "backfill":
            closed = _signature(content["closed"]) if "closed" in content else None
            named = tuple(map(parse_slot, content["slots"]))
            return Backfill(content["id"], named, _signature(content), closed, content["abandoned"])
        case "profile":
            columns = {name: ColumnProfile(*numbers) for name, numbers in content["columns"].items()}
            profile = Profile(content["rows"], columns)
            return SlotProfile(_revision(content), profile, content["at"], tuple(content["unusual"]))
        case _:
            raise ValueError(f"there is no kind {kind!r}")


def _text(on: SlotRevision) -> str:
    return f"{on.slot} {on.revision}"


def _on(on: SlotRevision) -> dict[str, Any]:
    return {"slot": str(on.slot), "revision": on.revision}


def _revision(content: Mapping[str, Any]) -> SlotRevision:
    return SlotRevision(parse_slot(content["slot"]), content["revision"])


def _signed(signature: Signature) -> dict[str, Any]:
    (kind, name), at, reason = signature
    return {"by": [str(kind), name], "at": at, "reason": reason}


def _signature(content: Mapping[str, Any]) -> Signature:
    kind, name = content["by"]
    return Signature(Author(AuthorKind(kind), name), content["at"], content["reason"])
