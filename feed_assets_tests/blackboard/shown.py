"""What a blackboard holds, as it and other programs show it."""

from __future__ import annotations

from pathlib import Path

from feed_assets.blackboard.port import Blackboard


def keys(blackboard: Blackboard, prefix: str = "", after: str = "") -> list[str]:
    return [entry.key for entry in blackboard.page(prefix, after=after).entries]


def on_disk(root: Path) -> list[str]:
    """Every path below the root that is not the blackboard's own, as any program would find it."""
    paths = (path.relative_to(root) for path in root.rglob("*"))
    return sorted(str(path) for path in paths if path.parts[0] != ".blackboard")
