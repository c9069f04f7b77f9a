"""Connections of the world: two ends that speak, and the bytes between them, which can be lost."""

from collections.abc import Callable
from typing import Protocol

from postroom.server.connection.binding import ConnectionBinding
from tests.faults.proxy import Splitter


class End(Protocol):
    """One end of a connection."""

    @property
    def finished(self) -> bool: ...

    def data_to_send(self) -> bytes: ...

    def receive(self, data: bytes, monotonic_us: int, now_us: int) -> int: ...

    def lost(self, now_us: int) -> None: ...


class Line:
    """A connection from ``here`` to ``there``: frames travel one by one."""

    def __init__(self, names: tuple[str, str], here: End, there: End, notify: Callable[[str], None]) -> None:
        """``notify`` is called with the name of who has received something."""
        self.names = names
        """Of the nodes, or of the client."""
        self.ends = (here, there)
        self.frames: tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]] = ([], [])
        """What each end has sent and the other hasn't received."""
        self._splitters = (Splitter(), Splitter())
        self._notify = notify
        self.alive = True

    def collect(self) -> None:
        """Put what both ends have to say on the line."""
        for end, frames, splitter in zip(self.ends, self.frames, self._splitters, strict=True):
            if data := end.data_to_send():
                frames.extend(splitter.feed(data))

    def steps(self, now_us: int) -> list[tuple[str, Callable[[], None]]]:
        """Name and deed: the next frame of each direction arrives; or an end has said all, and it is over."""
        self.collect()
        found: list[tuple[str, Callable[[], None]]] = []
        for side in (0, 1):
            if self.frames[side]:
                found.append((self._words(side), lambda side=side: self.carry(side, now_us)))
            elif self._over(side):
                who = self.names[side]
                found.append((f"{who} hangs up", lambda: self.cut(now_us)))
        return found

    def _words(self, side: int) -> str:
        what = self.frames[side][0][0]
        return f"{what} from {self.names[side]} reaches {self.names[1 - side]}"

    def _over(self, side: int) -> bool:
        end = self.ends[side]
        return end.finished or (isinstance(end, ConnectionBinding) and end.aborted)

    def carry(self, side: int, now_us: int) -> None:
        """One frame arrives."""
        _, frame = self.frames[side].pop(0)
        target = self.ends[1 - side]
        if not target.finished:
            target.receive(frame, now_us, now_us)
        self._notify(self.names[1 - side])

    def cut(self, now_us: int, *dead: str) -> None:
        """What was under way is lost; both ends hear of it, but those that are ``dead``."""
        self.alive = False
        for name, end in zip(self.names, self.ends, strict=True):
            if name not in dead:
                end.lost(now_us)
                self._notify(name)
