"""Fork workers from a process that has the user's code loaded, and nothing running.

The nursery is single-threaded, so a fork copies no lock that some thread holds. It forks twice: the process between
the two ends at once, and the kernel hands the worker to the supervisor, which has asked to inherit orphans. So each
worker is the supervisor's own child, and the death or renewal of the nursery touches none.

One thing it does for workers that lived: when the supervisor is killed, the kernel kills the workers, but not what
their jobs had started. The nursery sees the end of its line and ends those sessions, then itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import NoReturn

import msgspec

from workers.process import lineage
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.process.pipe import Fork, Reaped, receive_packet

Build = Callable[[Orders, socket.socket], NoReturn]
"""Become the child that the orders name, speaking over that socket; wiring hands it in."""


class Nursery:
    """Serve the supervisor's requests, one after the other, until its line ends."""

    def __init__(self, line: socket.socket, build: Build) -> None:
        self._line = line
        self._build = build
        self._living: set[int] = set()

    def serve(self) -> None:
        """Fork on request; return when the supervisor is gone, with all that its workers had started."""
        while True:
            message, descriptors = receive_packet(self._line)
            match message:
                case Fork(orders=orders):
                    self._fork(msgspec.convert(orders, Orders), descriptors[0])
                case Reaped(pid=pid):
                    self._living.discard(pid)
                case None:
                    break
                case _:
                    raise ValueError(f"a nursery does not understand {message}")
        for leader in self._living:
            lineage.end_session(leader)

    def _fork(self, orders: Orders, descriptor: int) -> None:
        born_in, born_out = os.pipe()
        between = os.fork()
        if between == 0:
            os.close(born_in)
            self._bear(orders, descriptor, born_out)
        os.close(born_out)
        os.close(descriptor)
        told = os.read(born_in, 32)
        os.close(born_in)
        os.waitpid(between, 0)
        if told:
            self._living.add(int(told))

    def _bear(self, orders: Orders, descriptor: int, born_out: int) -> NoReturn:
        """Be the process between: fork the worker, say its pid, end. Neither ever returns into the nursery's code."""
        try:
            worker = os.fork()
            if worker == 0:
                os.close(born_out)
                self._line.close()
                self._build(orders, socket.socket(fileno=descriptor))
            os.write(born_out, str(worker).encode())
        finally:
            os._exit(Exit.DRAINED)
