"""A program that knows only the plain protocol: it writes, reads and invalidates updates as any language could.

Here: what tests hold the library against. Nothing here uses the library, save its blackboard in memory.
"""

from __future__ import annotations

import re

from feed_assets.blackboard.memory import MemoryBlackboard

UPDATE = re.compile(r"\d{8}\.\d{6}")


def valid_updates(objects: dict[str, bytes], prefix: str) -> dict[str, set[str]]:
    """name -> file keys of the valid updates below a prefix."""
    below = {key: data for key, data in objects.items() if key.startswith(prefix)}
    names = sorted({key[len(prefix) :].split("/")[0] for key in below})
    valid = {}
    for name in filter(UPDATE.fullmatch, names):
        files = {key for key in below if key.startswith(f"{prefix}{name}/")}
        manifest = f"{prefix}{name}/_SUCCESS"
        files.discard(manifest)
        if below.get(manifest) == str(len(files)).encode():
            valid[name] = files
    return valid


def latest_name(objects: dict[str, bytes], prefix: str) -> str | None:
    return max(valid_updates(objects, prefix), default=None)


def write(board: MemoryBlackboard, prefix: str, name: str, *, files: int = 1) -> None:
    for number in range(files):
        board.put(f"{prefix}{name}/part-{number}", f"{name} {number}".encode())


def publish(board: MemoryBlackboard, prefix: str, name: str, *, files: int = 1) -> None:
    write(board, prefix, name, files=files)
    board.put(f"{prefix}{name}/_SUCCESS", str(files).encode())


def invalidate(board: MemoryBlackboard, prefix: str, name: str) -> None:
    board.delete(f"{prefix}{name}/_SUCCESS")
