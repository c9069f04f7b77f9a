"""The points of a job, by name, and what happens there: the next kill of the plan, if it is of that point.

The plan is a folder of empty files, `todo`, in the order in which they are to happen; whoever reaches a point
first moves the file to `done`, so that each kill happens once, in whatever process.
"""

import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

FOLDER: Final = "POSTROOM_KILLS"
"""Variable with the folder of a play."""
STALL_S: Final = 600.0
NOTED_S: Final = 60.0
POLL_S: Final = 0.02


class Point(StrEnum):
    """In the order in which a batch passes them."""

    BEFORE_REGISTER = "before-register"
    AFTER_READ = "after-read"
    BEFORE_BRANCH_DURABLE = "before-branch-durable"
    AFTER_BRANCH_DURABLE = "after-branch-durable"
    BEFORE_DECISION = "before-decision"
    AFTER_DECISION = "after-decision"
    AFTER_TABLE_COMMIT = "after-table-commit"
    BEFORE_SPARK_COMMIT_LOG = "before-spark-commit-log"
    BEFORE_CONFIRM = "before-confirm"
    AFTER_CONFIRM = "after-confirm"


class Victim(StrEnum):
    """Who ends."""

    BROKER = "broker"
    DRIVER = "driver"
    EXECUTOR = "executor"
    STALL = "stall"
    """Nobody: whoever is there stops for so long that Spark begins it anew elsewhere."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One of a plan."""

    point: Point
    victim: Victim

    def __str__(self) -> str:
        return f"{self.victim} {self.point}"


class Plan:
    """The folder of a play."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._todo: Final = folder / "todo"
        self._done: Final = folder / "done"

    @classmethod
    def of_environment(cls) -> "Plan":
        return cls(Path(os.environ[FOLDER]))

    def lay_out(self, kills: Sequence[Kill]) -> None:
        for folder in (self._todo, self._done):
            folder.mkdir(parents=True)
        for number, kill in enumerate(kills):
            (self._todo / f"{number:03} {kill.point} {kill.victim}").touch()

    def left(self) -> list[Kill]:
        """Those that haven't happened."""
        return [_kill_of(name) for name in self._names()]

    def note(self, name: str, *numbers: int) -> None:
        """Process ids, for those who kill."""
        beside = self.folder / f".{name}"
        beside.write_text(" ".join(map(str, numbers)))
        beside.rename(self.folder / name)

    def noted(self, name: str) -> list[int]:
        """Waits until somebody has noted it."""
        _until((self.folder / name).exists)
        return [int(number) for number in (self.folder / name).read_text().split()]

    def forget(self, name: str) -> None:
        (self.folder / name).unlink()

    def take(self, point: Point) -> Kill | None:
        """The next kill, if it is here and nobody else has it."""
        for name in self._names()[:1]:
            kill = _kill_of(name)
            if kill.point == point:
                try:
                    (self._todo / name).rename(self._done / name)
                except FileNotFoundError:
                    return None
                return kill
        return None

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._todo.iterdir())


def _kill_of(name: str) -> Kill:
    _, point, victim = name.split()
    return Kill(Point(point), Victim(victim))


# --- what happens ---------------------------------------------------------------------------------


def reached(point: Point) -> None:
    """Somebody is at a point."""
    plan = Plan.of_environment()
    kill = plan.take(point)
    if kill is not None:
        ACTS[kill.victim](plan)


def _end_broker(plan: Plan) -> None:
    """The one that runs now: whoever watches starts another, and notes that."""
    pids = plan.noted(Victim.BROKER)
    plan.forget(Victim.BROKER)
    _kill(*pids)


def _end_driver(plan: Plan) -> None:
    _kill(*plan.noted(Victim.DRIVER), os.getpid())


def _end_executor(plan: Plan) -> None:
    """The one that this task runs in; another, where this is the driver's. If the points before have ended
    all of them: the first that comes in their place."""
    own = [pid for pid in _ancestors() if _is_executor(pid)]
    if own:
        _kill(own[0], os.getpid())
    _until(lambda: bool(_executors()))
    _kill(_executors()[0])


def _stall(plan: Plan) -> None:
    time.sleep(STALL_S)


ACTS: Final[dict[Victim, Callable[[Plan], None]]] = {
    Victim.BROKER: _end_broker,
    Victim.DRIVER: _end_driver,
    Victim.EXECUTOR: _end_executor,
    Victim.STALL: _stall,
}


def _until(is_so: Callable[[], bool]) -> None:
    """Or until it has taken too long: whoever looks then fails."""
    end_s = time.monotonic() + NOTED_S
    while not is_so() and time.monotonic() < end_s:
        time.sleep(POLL_S)


def _kill(*pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _ancestors() -> list[int]:
    found: list[int] = []
    pid = os.getpid()
    while pid > 1:
        found.append(pid)
        pid = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _executors() -> list[int]:
    """Of this play: they have its folder in their environment."""
    mark = f"{FOLDER}={os.environ[FOLDER]}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_executor(int(entry.name)):
            try:
                is_ours = mark in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if is_ours:
                found.append(int(entry.name))
    return found


def _is_executor(pid: int) -> bool:
    try:
        return b"ExecutorBackend" in (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


# --- points around calls --------------------------------------------------------------------------

T = TypeVar("T")


def around(cls: type, name: str, before: Point | None, after: Point | None) -> None:
    """Points before and after a method."""
    method = getattr(cls, name)

    @wraps(method)
    def passed(*arguments: Any, **more: Any) -> Any:
        if before is not None:
            reached(before)
        found = method(*arguments, **more)
        if after is not None:
            reached(after)
        return found

    setattr(cls, name, passed)


def around_async(cls: type, name: str, before: Point | None, after: Point | None) -> None:
    """The same of a coroutine."""
    method: Callable[..., Awaitable[Any]] = getattr(cls, name)

    @wraps(method)
    async def passed(*arguments: Any, **more: Any) -> Any:
        if before is not None:
            reached(before)
        found = await method(*arguments, **more)
        if after is not None:
            reached(after)
        return found

    setattr(cls, name, passed)
