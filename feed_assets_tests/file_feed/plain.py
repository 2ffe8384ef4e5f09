"""A program that knows only the plain protocol: it writes, reads and invalidates updates as any language could.

Here: what tests hold the library against. Nothing here uses the library, save its blackboard in memory.
"""

from __future__ import annotations

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets_tests.file_feed import plain_reader


def latest_name(objects: dict[str, bytes], prefix: str) -> str | None:
    found = plain_reader.latest(objects, prefix)
    return found[0] if found else None


def write(board: MemoryBlackboard, prefix: str, name: str, *, files: int = 1) -> None:
    for number in range(files):
        board.put(f"{prefix}{name}/part-{number}", f"{name} {number}".encode())


def publish(board: MemoryBlackboard, prefix: str, name: str, *, files: int = 1) -> None:
    write(board, prefix, name, files=files)
    board.put(f"{prefix}{name}/_SUCCESS", str(files).encode())


def invalidate(board: MemoryBlackboard, prefix: str, name: str) -> None:
    board.delete(f"{prefix}{name}/_SUCCESS")
