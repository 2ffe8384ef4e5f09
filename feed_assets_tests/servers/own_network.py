"""A program in a network of its own, to which 127.0.0.1 of this machine leads.

For servers that listen on all addresses and cannot be told otherwise: their network has nothing but loopback. Here: the
network, and passing connections on. Not here: which programs need it.

`python -m feed_assets_tests.servers.own_network PORT PROGRAM ...` listens on 127.0.0.1:PORT, passes each connection on
to that port of the program, and ends with it. Needs Linux, and root or user namespaces for all.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

MODULE: Final = "feed_assets_tests.servers.own_network"
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # of Linux's sched.h
_SET_FLAGS, _UP = 0x8914, 0x1  # of its sockios.h and if.h


def main(port: int, command: Sequence[str]) -> int:
    """Run the program, and pass connections on to it. Returns its exit code."""
    with socket.create_server(("127.0.0.1", port)) as listener:  # a socket stays in the network that made it
        _leave_network()
        return asyncio.run(_run(listener, port, command))


def _leave_network() -> None:
    """Go to a new network in which loopback is up."""
    flags = _NEW_NETWORK if os.geteuid() == 0 else _NEW_NETWORK | _NEW_USER
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        sys.exit(f"this user may not make a network: {os.strerror(ctypes.get_errno())}")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


async def _run(listener: socket.socket, port: int, command: Sequence[str]) -> int:
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_program, to_program = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # it does not listen yet
            writer.close()
            return
        await asyncio.gather(_copy(reader, to_program), _copy(from_program, writer))

    async with await asyncio.start_server(pass_on, sock=listener):
        program = await asyncio.create_subprocess_exec("setpriv", "--pdeathsig", "KILL", "--", *command)
        return await program.wait()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while content := await reader.read(1 << 16):
            writer.write(content)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
