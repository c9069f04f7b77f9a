"""Resource managers that do what a test says, and remember what they were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from postroom.client.aio import Transaction, TransactionManager
from postroom.client.exceptions import XAException
from postroom.client.transactions.decision_log import LOG_NAME
from postroom.client.transactions.two_phase import Step, TransactionStatus
from postroom.model.xa import XaCode, XaFlag, Xid, is_rolled_back

C = XaCode
HEURISTIC = {C.XA_HEURCOM, C.XA_HEURRB, C.XA_HEURMIX, C.XA_HEURHAZ}


class Crash(BaseException):
    """The transaction manager's process ends here; nothing it does afterwards happens."""


class World:
    """Resource managers, and a transaction manager that may crash before or after any step."""

    def __init__(self, folder: Path, names: str = "ab") -> None:
        self.folder = folder
        self.managers = {name: FakeResourceManager(self, name) for name in names}
        self.crash_at = 0
        """The number of the step at which it crashes; 0: never."""
        self.steps: list[tuple[Step, str]] = []
        self.has_crashed = False
        self.lives = 0

    def on_step(self, step: Step, name: str) -> None:
        self.steps.append((step, name))
        if len(self.steps) == self.crash_at:
            self.has_crashed = True
            self._keep_log()
        self.check_alive()

    def check_alive(self) -> None:
        if self.has_crashed:
            raise Crash

    def _keep_log(self) -> None:
        """What is on disk now is what the next life finds."""
        old, self.lives = self._life(), self.lives + 1
        self._life().mkdir(parents=True)
        (self._life() / LOG_NAME).write_bytes((old / LOG_NAME).read_bytes())

    def _life(self) -> Path:
        return self.folder / f"life{self.lives}"

    def manager(self) -> TransactionManager:
        """A transaction manager in a new process."""
        self.has_crashed = False
        return TransactionManager(self._life(), on_step=self.on_step)

    def resources(self) -> list[FakeResource]:
        """New sessions with all resource managers."""
        return [FakeResource(manager) for manager in self.managers.values()]

    def outcomes(self) -> dict[str, str]:
        """What each resource manager has done with the work of the one transaction."""
        return {name: manager.outcome() for name, manager in self.managers.items()}


class FakeResourceManager:
    """One that keeps its promises, unless a test wants it otherwise."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.prepared: set[Xid] = set()
        self.heuristics: dict[Xid, XaCode] = {}
        self.done: Counter[str] = Counter()
        """How often work was committed, and rolled back."""
        self.verbs: list[str] = []
        self.fails: dict[str, XaCode] = {}
        """What to answer to a verb; nothing has happened then, unless the code means so."""
        self.loses_answer_of = ""
        """The verb that is done but whose answer never comes."""
        self.is_read_only = False
        self.is_unreachable = False

    def outcome(self) -> str:
        if self.prepared:
            return "in doubt"
        return "+".join(f"{what} {count}" for what, count in sorted(self.done.items())) or "nothing"

    def foreign(self, xid: Xid) -> None:
        """A branch of somebody else is prepared."""
        self.prepared.add(xid)


class FakeResource:
    """A session with a resource manager."""

    def __init__(self, manager: FakeResourceManager) -> None:
        self.manager = manager
        self.active: Xid | None = None
        self.ended: Xid | None = None

    async def resource_name(self) -> str:
        return self.manager.name

    def _hear(self, verb: str) -> None:
        """Each verb begins here: the caller may be dead, the resource manager away or made to refuse it."""
        self.manager.world.check_alive()
        self.manager.verbs.append(verb)
        if self.manager.is_unreachable:
            raise XAException(f"{self.manager.name} is away", C.XAER_RMFAIL)
        code = self.manager.fails.get(verb)
        if code is not None:
            self._fail(verb, code)

    def _fail(self, verb: str, code: XaCode) -> None:
        xid = self.active or self.ended
        if is_rolled_back(code) and xid is not None:
            self._decided(xid, "rolled back")
        raise XAException(f"{verb} at {self.manager.name}", code)

    def _answer(self, verb: str) -> None:
        if self.manager.loses_answer_of == verb:
            raise XAException(f"{self.manager.name} is gone", C.XAER_RMFAIL)

    def _decided(self, xid: Xid, how: str) -> None:
        self.manager.prepared.discard(xid)
        self.active = self.ended = None
        self.manager.done[how] += 1

    async def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        self._hear("start")
        assert self.active is None and self.ended is None
        self.active = xid
        self._answer("start")

    async def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        self._hear("end")
        if self.active != xid:
            raise XAException("unknown", C.XAER_NOTA)
        self.active, self.ended = None, xid
        if flags == XaFlag.TMFAIL:
            self._decided(xid, "rolled back")

    async def prepare(self, xid: Xid) -> XaCode:
        self._hear("prepare")
        assert self.ended == xid
        self.ended = None
        if self.manager.is_read_only:
            self.manager.done["read"] += 1
            return C.XA_RDONLY
        self.manager.prepared.add(xid)
        self._answer("prepare")
        return C.XA_OK

    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        verb = "commit one phase" if one_phase else "commit"
        self._hear(verb)
        self._check_known(xid, one_phase)
        self._decided(xid, "committed")
        self._answer(verb)

    async def rollback(self, xid: Xid) -> None:
        self._hear("rollback")
        self._check_known(xid, xid == self.ended)
        assert self.active != xid
        self._decided(xid, "rolled back")
        self._answer("rollback")

    def _check_known(self, xid: Xid, one_phase: bool) -> None:
        if xid in self.manager.heuristics:
            raise XAException("heuristic", self.manager.heuristics[xid])
        if xid != self.ended if one_phase else xid not in self.manager.prepared:
            raise XAException("unknown", C.XAER_NOTA)

    async def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN) -> list[Xid]:
        self._hear("recover")
        return [*self.manager.prepared, *self.manager.heuristics]

    async def forget(self, xid: Xid) -> None:
        self._hear("forget")
        assert xid in self.manager.heuristics
        del self.manager.heuristics[xid]
        self._answer("forget")


# --- transactions over them

COMMITTED, ROLLED_BACK = "committed 1", "rolled back 1"


async def transact(world: World, resources: Iterable[FakeResource] = ()) -> Transaction:
    """One transaction over all resource managers, with no more work than the fakes have."""
    async with world.manager() as manager:
        transaction = manager.transaction(*(resources or world.resources()))
        async with transaction:
            assert transaction.status is TransactionStatus.ACTIVE
        return transaction


async def recover(world: World) -> TransactionManager:
    """The next life of the transaction manager, which recovers all resource managers; closed."""
    async with world.manager() as manager:
        await manager.recover(*world.resources())
        assert manager.unfinished() == []
    return manager


def both(what: str) -> dict[str, str]:
    return {"a": what, "b": what}
