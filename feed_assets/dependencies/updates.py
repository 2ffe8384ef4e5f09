"""What is in force of a feed, and what a listing of raw data shows: what these facts change. Pure.

Not here: parts and numbers (`parts`, `numbers`), what follows for slots (`act`).
"""

from __future__ import annotations

from feed_assets.dependencies.act import Act
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Listed, Published


def take_published(act: Act, fact: Published) -> None:
    """Take which update of a base slot is in force. A change reopens the slot, unless the content is equal."""
    slot, update, digest = fact.slot, fact.update, fact.digest
    state = act.base(slot)
    known = state.facts
    if update == known.update:
        if digest and not known.digest:
            act.set_facts(slot, known._replace(digest=digest))
        return
    equal = bool(digest) and digest == known.digest
    act.set_facts(slot, known._replace(update=update, digest=digest if update else known.digest, backfill=""))
    if equal:
        act.keep_content(slot)
    elif state.complete:
        act.reopen(slot, f"update {update} replaced {known.update}" if update else f"{known.update} is invalid")


def take_listed(act: Act, fact: Listed) -> None:
    """Take what a listing of a base slot shows. Raises RefusedFactError."""
    slot, records, files, content = fact
    if files < 0 or (records is not None and records < 0):
        raise RefusedFactError(f"{slot}: {records} records in {files} files: neither can be negative.")
    known = act.facts(slot)
    changed = known.changed if content == known.content else act.clock
    act.set_facts(slot, known._replace(records=records, files=files, content=content, changed=changed))
