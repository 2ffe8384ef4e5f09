"""Where a record of a landed file came from: the request, its partner, and the index in it.

Here: answers for records of pushed files, and of corrections of such records. Each file is asked for once. Not here:
the receipts that say so (`receiving.receipts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from feed_assets.blackboard.port import Blackboard
from feed_assets.receiving.receipts import Receipts, requests_of
from feed_assets.receiving.resubmission import Batch, Place, batch_of, batches


@dataclass(frozen=True, slots=True)
class Origin:
    """The request of a record, its partner ("" without tokens), and the record's index in the request, from 0."""

    source: str
    request_id: str
    partner: str
    index: int


@dataclass(slots=True)
class Origins:
    """The origins of records of a blackboard. It reads the receipts of a file once."""

    blackboard: Blackboard
    _receipts: dict[tuple[str, str], Receipts | None] = field(default_factory=dict)
    _batches: dict[tuple[str, str], Batch | None] = field(default_factory=dict)
    _resubmitted: dict[str, set[Place]] = field(default_factory=dict)

    def of(self, sources: Sequence[str], file: str, line: int | None) -> Origin | None:
        """The origin of a record in a file of one of these sources; None if it was not pushed, or nobody knows."""
        if line is None:
            return None
        for source in sources:
            if (batch := self._batch(source, file)) is not None and 1 <= line <= len(batch.places):
                place = batch.places[line - 1]
                return self.of([source], place.file, place.line)
            receipts = self._of_file(source, file)
            if receipts is not None and (found := receipts.of_line(line)) is not None:
                return Origin(source, found[0].request_id, found[0].partner, found[1])
        return None

    def is_resubmitted(self, source: str, file: str, line: int | None) -> bool:
        """Whether a correction of this record was resubmitted."""
        if source not in self._resubmitted:
            found = (place for _, batch in batches(self.blackboard, source) for place in batch.places)
            self._resubmitted[source] = set(found)
        return line is not None and Place(file, line) in self._resubmitted[source]

    def _of_file(self, source: str, file: str) -> Receipts | None:
        key = source, file
        if key not in self._receipts:
            self._receipts[key] = requests_of(self.blackboard, source, file)
        return self._receipts[key]

    def _batch(self, source: str, file: str) -> Batch | None:
        key = source, file
        if key not in self._batches:
            self._batches[key] = batch_of(self.blackboard, source, file)
        return self._batches[key]
