"""XA's nouns: Xids in print and on the wire, X/Open's numbers, and every cell of the table of verbs."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.model.xa import (
    IN_DOUBT,
    MAX_XID_CHARACTERS,
    UNPREPARED,
    BranchState,
    XaCode,
    XaFlag,
    XaVerb,
    Xid,
    XidInvalid,
    cell,
    is_rolled_back,
)

xids = st.builds(
    Xid,
    st.integers(-(2**31), 2**31 - 1).filter(lambda number: number != -1),
    st.binary(min_size=1, max_size=64),
    st.binary(min_size=1, max_size=64),
)


@given(xids)
def test_an_xid_in_print_and_on_the_wire_is_the_same_xid(xid: Xid) -> None:
    assert Xid.parse(str(xid)) == xid
    assert Xid.from_wire([xid.format_id, xid.gtrid, xid.bqual]) == xid
    assert len(str(xid)) <= MAX_XID_CHARACTERS


def test_an_xid_is_printed_as_format_gtrid_and_bqual_in_hex() -> None:
    assert str(Xid(0x1234, b"\x01\xff", b"b")) == "00001234-01ff-62"
    assert str(Xid(-2, b"a", b"b")) == "fffffffe-61-62"
    assert len(str(Xid(1, bytes(64), bytes(64)))) == MAX_XID_CHARACTERS


@pytest.mark.parametrize(
    ("format_id", "gtrid", "bqual"),
    [
        (-1, b"g", b"b"),
        (2**31, b"g", b"b"),
        (-(2**31) - 1, b"g", b"b"),
        (1, b"", b"b"),
        (1, b"g", b""),
        (1, bytes(65), b"b"),
        (1, b"g", bytes(65)),
    ],
)
def test_what_can_be_no_xid(format_id: int, gtrid: bytes, bqual: bytes) -> None:
    with pytest.raises(XidInvalid):
        Xid(format_id, gtrid, bqual)


@pytest.mark.parametrize(
    "text",
    [
        *("", "00000001", "00000001-61", "00000001-61-62-63", "1-61-62", "00000001--62", "00000001-61-"),
        *(
            "0000000g-61-62",
            "00000001-6-62",
            "ffffffff-61-62",
            "00000001-61 62-63",
            "0000 001-61-62",
            "00000001-" + "61" * 65 + "-62",
        ),
    ],
)
def test_what_is_no_xid_in_print(text: str) -> None:
    with pytest.raises(XidInvalid):
        Xid.parse(text)


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        b"x",
        [],
        [1, b"g"],
        [1, b"g", b"b", b"c"],
        [True, b"g", b"b"],
        ["1", b"g", b"b"],
        [1, "g", b"b"],
    ],
)
def test_what_is_no_xid_on_the_wire(value: object) -> None:
    with pytest.raises(XidInvalid):
        Xid.from_wire(value)


@given(st.text())
def test_any_text_is_an_xid_or_refused(text: str) -> None:
    with suppress(XidInvalid):
        assert str(Xid.parse(text)) == text.lower()


def test_numbers_of_x_open() -> None:
    """semantics.md 2.4, as in <xa.h>."""
    flags = {flag.name: int(flag) for flag in XaFlag}
    assert not XaFlag.TMNOFLAGS
    assert flags == {
        "TMJOIN": 0x00200000,
        "TMENDRSCAN": 0x00800000,
        "TMSTARTRSCAN": 0x01000000,
        "TMSUSPEND": 0x02000000,
        "TMSUCCESS": 0x04000000,
        "TMRESUME": 0x08000000,
        "TMFAIL": 0x20000000,
        "TMONEPHASE": 0x40000000,
    }
    assert {code.name: int(code) for code in XaCode} == {
        "XA_OK": 0,
        "XA_RDONLY": 3,
        "XA_RETRY": 4,
        "XA_HEURMIX": 5,
        "XA_HEURRB": 6,
        "XA_HEURCOM": 7,
        "XA_HEURHAZ": 8,
        "XA_NOMIGRATE": 9,
        "XA_RBROLLBACK": 100,
        "XA_RBCOMMFAIL": 101,
        "XA_RBDEADLOCK": 102,
        "XA_RBINTEGRITY": 103,
        "XA_RBOTHER": 104,
        "XA_RBPROTO": 105,
        "XA_RBTIMEOUT": 106,
        "XA_RBTRANSIENT": 107,
        "XAER_ASYNC": -2,
        "XAER_RMERR": -3,
        "XAER_NOTA": -4,
        "XAER_INVAL": -5,
        "XAER_PROTO": -6,
        "XAER_RMFAIL": -7,
        "XAER_DUPID": -8,
        "XAER_OUTSIDE": -9,
    }


@pytest.mark.parametrize("code", [int(code) for code in XaCode])
def test_rolled_back_are_100_to_107(code: int) -> None:
    assert is_rolled_back(code) == (100 <= code <= 107)


# The table as one would write it down for a colleague: one line a verb, one word a state. What a verb leads
# to is behind the arrow; without one the branch stays as it is.
STATES = ("none", "active", "susp", "idle", "prepared", "rolled", "heur_com", "heur_rb")
TABLE = """
start              OK>active DUPID           DUPID          DUPID           DUPID       DUPID   DUPID    DUPID
join               NOTA      OK>active       PROTO          OK>active       PROTO       RB      PROTO    PROTO
resume             NOTA      PROTO           OK>active      PROTO           PROTO       RB      PROTO    PROTO
end                NOTA      OK>idle         OK>idle        PROTO           PROTO       RB      PROTO    PROTO
fail               NOTA      OK>rolled       OK>rolled      PROTO           PROTO       RB      PROTO    PROTO
suspend            NOTA      OK>susp         PROTO          PROTO           PROTO       RB      PROTO    PROTO
prepare            NOTA      PROTO           PROTO          OK>prepared     PROTO       RB>none PROTO    PROTO
commit             NOTA      PROTO           PROTO          PROTO           OK>none     PROTO   HEURCOM HEURRB
commit_one_phase   NOTA      PROTO           PROTO          OK>none         PROTO       RB>none HEURCOM HEURRB
rollback           NOTA      PROTO           PROTO          OK>none         OK>none     OK>none HEURCOM HEURRB
forget             NOTA      NOTA            NOTA           NOTA            NOTA        NOTA   OK>none OK>none
heuristic_commit   NOTA      PROTO           PROTO          OK>heur_com     OK>heur_com PROTO   PROTO    PROTO
heuristic_rollback NOTA      PROTO           PROTO          OK>heur_rb      OK>heur_rb  PROTO   PROTO    PROTO
delete             NOTA      PROTO           PROTO          PROTO           PROTO      PROTO   OK>none OK>none
time_out           OK        TIMEOUT>rolled  TIMEOUT>rolled TIMEOUT>rolled  OK          OK      OK       OK
give_up            OK        OTHER>rolled    OTHER>rolled   OTHER>rolled    OK          OK      OK       OK
session_closed     OK        OK>susp         OK             OK              OK          OK      OK       OK
session_lost       OK        COMMFAIL>rolled COMMFAIL>rolled COMMFAIL>rolled OK          OK      OK       OK
restart            OK        NOTA>none       NOTA>none      NOTA>none       OK          NOTA>none OK       OK
"""
CODES = {
    "OK": XaCode.XA_OK,
    "RB": XaCode.XA_RBROLLBACK,
    "TIMEOUT": XaCode.XA_RBTIMEOUT,
    "OTHER": XaCode.XA_RBOTHER,
    "COMMFAIL": XaCode.XA_RBCOMMFAIL,
    "HEURCOM": XaCode.XA_HEURCOM,
    "HEURRB": XaCode.XA_HEURRB,
    "NOTA": XaCode.XAER_NOTA,
    "PROTO": XaCode.XAER_PROTO,
    "DUPID": XaCode.XAER_DUPID,
}
CELLS = [
    (XaVerb[line.split()[0].upper()], BranchState(number), word)
    for line in TABLE.strip().splitlines()
    for number, word in enumerate(line.split()[1:])
]


@pytest.mark.parametrize(
    ("verb", "state", "word"), CELLS, ids=[f"{verb.name}-{state.name}" for verb, state, _ in CELLS]
)
def test_a_cell(verb: XaVerb, state: BranchState, word: str) -> None:
    code, _, to = word.partition(">")
    answer = cell(verb, state)
    assert answer.code == CODES[code]
    assert answer.to == (BranchState(STATES.index(to)) if to else state)


def test_every_cell_has_its_test() -> None:
    assert len(CELLS) == len(XaVerb) * len(BranchState) == len({(verb, state) for verb, state, _ in CELLS})


def test_nothing_but_a_decision_ends_a_prepared_branch() -> None:
    decisions = {XaVerb.COMMIT, XaVerb.ROLLBACK, XaVerb.HEURISTIC_COMMIT, XaVerb.HEURISTIC_ROLLBACK}
    for verb in XaVerb:
        moved = cell(verb, BranchState.PREPARED).to != BranchState.PREPARED
        assert moved == (verb in decisions), verb.name


def test_states_are_in_doubt_unprepared_or_rolled_back() -> None:
    others = {BranchState.NONEXISTENT, BranchState.ROLLBACK_ONLY}
    assert IN_DOUBT | UNPREPARED | others == set(BranchState)
    assert not IN_DOUBT & UNPREPARED


def test_two_phase_commit_never_answers_that_it_was_rolled_back() -> None:
    """X/Open: XA_RB* is not a legal answer there."""
    assert not any(is_rolled_back(cell(XaVerb.COMMIT, state).code) for state in BranchState)
