"""Every verb in every state, over the wire: one test a cell.

The table is written down here once more, by hand from X/Open's pages, not taken from the broker's.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from postroom.amqp.encoding.types import UInt
from postroom.model.xa import XaCode, XaFlag, Xid
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, attributes, code_of, global_id, new_xid

pytestmark = pytest.mark.sockets

F = XaFlag

STATES: Final = (
    "nonexistent",
    "active",
    "suspended",
    "idle",
    "prepared",
    "rollback-only",
    "heurcom",
    "heurrb",
)
TABLE: Final = """
start          OK    DUPID DUPID DUPID DUPID DUPID DUPID   DUPID
join           NOTA  OK    PROTO OK    PROTO RB    PROTO   PROTO
resume         NOTA  PROTO OK    PROTO PROTO RB    PROTO   PROTO
end            NOTA  OK    OK    PROTO PROTO RB    PROTO   PROTO
fail           NOTA  OK    OK    PROTO PROTO RB    PROTO   PROTO
suspend        NOTA  OK    PROTO PROTO PROTO RB    PROTO   PROTO
prepare        NOTA  PROTO PROTO OK    PROTO RB    PROTO   PROTO
commit         NOTA  PROTO PROTO PROTO OK    PROTO HEURCOM HEURRB
one-phase      NOTA  PROTO PROTO OK    PROTO RB    HEURCOM HEURRB
rollback       NOTA  PROTO PROTO OK    OK    OK    HEURCOM HEURRB
forget         NOTA  NOTA  NOTA  NOTA  NOTA  NOTA  OK      OK
admin-commit   NOTA  PROTO PROTO OK    OK    PROTO PROTO   PROTO
admin-rollback NOTA  PROTO PROTO OK    OK    PROTO PROTO   PROTO
admin-forget   NOTA  PROTO PROTO PROTO PROTO PROTO OK      OK
"""
CODES: Final = {
    "OK": XaCode.XA_OK,
    "RB": XaCode.XA_RBROLLBACK,
    "HEURCOM": XaCode.XA_HEURCOM,
    "HEURRB": XaCode.XA_HEURRB,
    "NOTA": XaCode.XAER_NOTA,
    "DUPID": XaCode.XAER_DUPID,
    "PROTO": XaCode.XAER_PROTO,
}
CELLS: Final = [
    (verb, state, CODES[code])
    for verb, *row in (line.split() for line in TABLE.strip().splitlines())
    for state, code in zip(STATES, row, strict=True)
]


@pytest.fixture(scope="module")
def connections(broker: BrokerThread) -> Iterator[tuple[EnginePeer, EnginePeer]]:
    with EnginePeer(broker.port, "one") as one, EnginePeer(broker.port, "two") as two:
        yield one, two


class Cell:
    """A branch with a message in it, brought to a state by the session ``worker``; ``other`` is another's."""

    def __init__(self, broker: BrokerThread, one: EnginePeer, two: EnginePeer) -> None:
        self.worker = Controller(broker, one, "cells")
        self.other = Controller(broker, two, "cells")
        self.xid: Xid = new_xid()

    def bring(self, state: str) -> None:
        if state == "nonexistent":
            return
        worker, xid = self.worker, self.xid
        worker.send("x", worker.start(xid))
        ends = {"suspended": F.TMSUSPEND, "rollback-only": F.TMFAIL}
        if state != "active":
            assert worker.end(xid, ends.get(state, F.TMSUCCESS)) == XaCode.XA_OK
        if state in ("prepared", "heurcom", "heurrb"):
            assert worker.verb("PREPARE", xid) == XaCode.XA_OK
        if state in ("heurcom", "heurrb"):
            decided = "HEURISTIC-COMMIT" if state == "heurcom" else "HEURISTIC-ROLLBACK"
            assert attributes(worker.request(decided, name=str(xid)))["xids"] == [str(xid)]

    def start(self, flags: XaFlag) -> int:
        """By the other session: the worker may have the branch."""
        state = self.other.start_code(global_id(self.xid, UInt(flags)))
        return XaCode.XA_OK if state is None else state

    def decide(self, operation: str) -> int:
        reply = self.other.request(operation, name=str(self.xid))
        return code_of(reply) if reply.application_properties["statusCode"] == 409 else XaCode.XA_OK


VERBS: Final[dict[str, Callable[[Cell], int]]] = {
    "start": lambda c: c.start(F.TMNOFLAGS),
    "join": lambda c: c.start(F.TMJOIN),
    "resume": lambda c: c.start(F.TMRESUME),
    "end": lambda c: c.worker.end(c.xid, F.TMSUCCESS),
    "fail": lambda c: c.worker.end(c.xid, F.TMFAIL),
    "suspend": lambda c: c.worker.end(c.xid, F.TMSUSPEND),
    "prepare": lambda c: c.other.verb("PREPARE", c.xid),
    "commit": lambda c: c.other.verb("COMMIT", c.xid),
    "one-phase": lambda c: c.other.verb("COMMIT", c.xid, F.TMONEPHASE),
    "rollback": lambda c: c.other.verb("ROLLBACK", c.xid),
    "forget": lambda c: c.other.verb("FORGET", c.xid),
    "admin-commit": lambda c: c.decide("HEURISTIC-COMMIT"),
    "admin-rollback": lambda c: c.decide("HEURISTIC-ROLLBACK"),
    "admin-forget": lambda c: c.decide("DELETE"),
}


@pytest.mark.parametrize(("verb", "state", "code"), CELLS, ids=lambda each: getattr(each, "name", each))
def test_a_cell(
    broker: BrokerThread, connections: tuple[EnginePeer, EnginePeer], verb: str, state: str, code: XaCode
) -> None:
    cell = Cell(broker, *connections)
    cell.bring(state)
    assert VERBS[verb](cell) == code
    for each in (cell.worker, cell.other):
        each.session.end()


def test_every_verb_has_a_row() -> None:
    assert set(VERBS) == {verb for verb, _, _ in CELLS}
    assert len(CELLS) == len(VERBS) * len(STATES)
