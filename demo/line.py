"""The line between the two queue managers: it can go dead, unnoticed, and be cut and repaired."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

READ_BYTES = 1 << 16
OUTCOME = b"\x00\x53\x15"
"""How a disposition begins, by which a queue manager says what became of a batch."""


class Line:
    """A port of its own, from which everything goes on to ``target``; each direction has a thread."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.target = ("", 0)
        self.dead = threading.Event()
        """From now on nothing gets through, and nobody has noticed."""
        self._goes_dead = False
        self._works = threading.Event()
        self._works.set()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, name="line", daemon=True).start()

    def goes_dead_at_the_next_outcome(self) -> None:
        """The target's next outcome doesn't arrive, nor does anything after it."""
        self._goes_dead = True

    def cut(self) -> None:
        """Now both ends notice."""
        self._works.clear()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()

    def repair(self) -> None:
        """Calls get through again."""
        self._goes_dead = False
        self.dead.clear()
        self._works.set()

    def close(self) -> None:
        """Take no more calls, and end those that there are."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        self._works.set()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return  # closed
            self._works.wait()
            try:
                there = socket.create_connection(self.target)
            except OSError:
                here.close()
                continue
            self._sockets += [here, there]
            threading.Thread(target=self._carry, args=(here, there, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(there, here, True), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(READ_BYTES):
                if is_answer and self._goes_dead and OUTCOME in data:
                    self.dead.set()
                if not self.dead.is_set():
                    target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()
