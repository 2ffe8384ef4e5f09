"""A directory as a blackboard and other programs show it."""

from __future__ import annotations

from pathlib import Path

from feed_assets.blackboard import LocalBlackboard


def keys(blackboard: LocalBlackboard, prefix: str = "") -> list[str]:
    return [entry.key for entry in blackboard.page(prefix).entries]


def on_disk(root: Path) -> list[str]:
    """Every path below the root that is not the blackboard's own, as any program would find it."""
    paths = (path.relative_to(root) for path in root.rglob("*"))
    return sorted(str(path) for path in paths if path.parts[0] != ".blackboard")
