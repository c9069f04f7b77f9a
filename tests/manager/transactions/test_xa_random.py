"""Random verbs, messages, lost sessions, silences and restarts against a plain reference.

Two sessions, each with a consumer of its own queue, drive three branches. After every step the consumers hold
exactly what the reference says, `recover` tells exactly of what is prepared or heuristically decided, and
every counter is what a recount finds: a branch takes effect whole or not at all, and none is decided but by a
verb.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.transactions.xa_branch import XaSession
from postroom.model.xa import IN_DOUBT, UNPREPARED, BranchState, XaCode, XaVerb, Xid, cell, is_rolled_back
from tests.manager.over_ledger import LedgerWorld
from tests.manager.recount import check_counters, check_history
from tests.manager.xa_world import (
    END_SCAN,
    FAIL,
    JOIN,
    NOFLAGS,
    RESUME,
    START_SCAN,
    SUCCESS,
    SUSPEND,
    code_of,
    state_of,
)
from tests.sampling import examples

QUEUES = ("a", "b")
XIDS = [Xid(1, b"%d" % number, b"b") for number in range(3)]
LIMIT = 4
STEPS = 150
TIMEOUT_MS = 300_000

START_FLAGS = {XaVerb.START: NOFLAGS, XaVerb.JOIN: JOIN, XaVerb.RESUME: RESUME}
END_FLAGS = {XaVerb.END: SUCCESS, XaVerb.FAIL: FAIL, XaVerb.SUSPEND: SUSPEND}
S = BranchState
T = TypeVar("T")


ENDS = [*[XaVerb.END] * 6, *END_FLAGS]
DECISIONS = [
    *(XaVerb.PREPARE, XaVerb.PREPARE, XaVerb.COMMIT, XaVerb.ROLLBACK, XaVerb.COMMIT_ONE_PHASE),
    *(XaVerb.FORGET, XaVerb.HEURISTIC_COMMIT, XaVerb.HEURISTIC_ROLLBACK, XaVerb.DELETE),
]
ACTIONS = [
    *(["put"] * 4 + ["put in branch"] * 6 + ["start"] * 4 + ["end"] * 8 + ["decide"] * 8),
    *("restart", "silence", "close"),
]


@dataclass
class Message:
    """One that is put: where, and whether a restart leaves it."""

    queue: int
    body: bytes
    stored: bool
    lost: bool = False
    """A prepared branch has it, but a restart has left nothing of it but its name."""


@dataclass
class Reference:
    """A branch as one would keep it on paper."""

    state: BranchState = S.NONEXISTENT
    code: XaCode = XaCode.XA_OK
    puts: list[Message] = field(default_factory=list)
    gets: list[Message] = field(default_factory=list)
    workers: set[int] = field(default_factory=set)
    owner: int | None = None
    touched_ms: int = 0


class Machine:
    """The queue manager, and the reference: ``there`` is what each consumer is to hold."""

    def __init__(self) -> None:
        options = ManagerOptions(max_branch_messages=LIMIT, branch_idle_timeout_ms=TIMEOUT_MS)
        self.world = LedgerWorld(options)
        for name in QUEUES:
            self.world.queue(name)
        self.there: list[dict[bytes, Message]] = [{}, {}]
        self.branches = [Reference() for _ in XIDS]
        self.working: list[int | None] = [None, None]
        self.now_ms = 0
        self.number = 0
        self.began()

    def began(self) -> None:
        self.sessions: list[XaSession] = [self.world.manager.open_xa_session() for _ in QUEUES]
        self.consumers: list[Consumer] = [
            self.world.consumer(self.world.manager.queue(name), credit=5000, xa=True) for name in QUEUES
        ]
        self.world.turn()

    def step(self, random: Random) -> None:
        action = random.choice(ACTIONS)
        one, flag = random.randrange(2), random.random() < 0.5
        if action == "put":
            self.put(one, flag)
        elif action == "put in branch":
            self.put_in_branch(self.session_that(random, works=True), one, flag)
        elif action == "start" or (action == "end" and self.working == [None, None]):
            number = random.randrange(len(XIDS))
            verb = self.verb_for(random, number, list(START_FLAGS))
            self.start(self.session_that(random, works=False), number, verb)
        elif action == "end":
            session = self.session_that(random, works=True)
            own = self.working[session]
            number = self.mostly(random, [] if own is None else [own], range(len(XIDS)))
            self.end(session, number, random.choice(ENDS), random.randrange(LIMIT))
        elif action == "decide":
            number = self.any_branch(random)
            self.decide(number, self.verb_for(random, number, DECISIONS))
        elif action == "silence":
            self.silence()
        elif action == "close":
            self.close_session(one, flag)
        else:
            self.restart()
        self.consumers_hold_what_is_there()
        self.branches_are_where_they_should_be()
        check_counters(self.world.manager.core)

    # -- choosing: mostly what makes sense, since chance alone would hardly ever prepare anything

    def mostly(self, random: Random, fit: list[T], others: Sequence[T]) -> T:
        return random.choice(fit if fit and random.random() < 0.9 else others)

    def any_branch(self, random: Random) -> int:
        existing = [number for number, known in enumerate(self.branches) if known.state != S.NONEXISTENT]
        return self.mostly(random, existing, range(len(XIDS)))

    def verb_for(self, random: Random, number: int, verbs: list[XaVerb]) -> XaVerb:
        state = self.branches[number].state
        return self.mostly(random, [verb for verb in verbs if cell(verb, state).code == XaCode.XA_OK], verbs)

    def session_that(self, random: Random, works: bool) -> int:
        fit = [session for session in (0, 1) if (self.working[session] is not None) == works]
        return self.mostly(random, fit, (0, 1))

    # -- messages

    def message(self, queue: int, durable: bool, in_branch: bool) -> Message:
        self.number += 1
        return Message(queue, b"%d" % self.number, durable or in_branch)

    def put(self, queue: int, durable: bool) -> None:
        message = self.message(queue, durable, False)
        self.there[queue][message.body] = message
        self.world.put(self.world.manager.queue(QUEUES[queue]), message.body, durable=durable)

    def put_in_branch(self, session: int, queue: int, durable: bool) -> None:
        branch = self.sessions[session].branch
        if branch is None:
            return
        message = self.message(queue, durable, True)
        target = self.world.manager.queue(QUEUES[queue])
        self.world.put(target, message.body, transaction=branch.transaction, durable=durable)
        number = self.working[session]
        assert number is not None
        known = self.branches[number]
        if known.state != S.ACTIVE:
            return  # it has been rolled back
        known.touched_ms = self.now_ms
        if len(known.puts) + len(known.gets) < LIMIT:
            known.puts.append(message)
        else:
            self.roll_back(known, XaVerb.GIVE_UP)

    # -- verbs

    def start(self, session: int, number: int, verb: XaVerb) -> None:
        known = self.branches[number]
        answer = cell(verb, known.state)
        expected = self.code(known, answer.code)
        if self.working[session] is not None:
            expected = XaCode.XAER_PROTO
        code = code_of(
            lambda: self.world.manager.xa_start(
                self.sessions[session], XIDS[number], START_FLAGS[verb], self.world.now_us
            )
        )
        assert code == expected
        if code == XaCode.XA_OK:
            if verb == XaVerb.START:
                self.branches[number] = known = Reference()
            known.state, known.owner, known.touched_ms = S.ACTIVE, None, self.now_ms
            known.workers.add(session)
            self.working[session] = number

    def end(self, session: int, number: int, verb: XaVerb, some: int) -> None:
        """What the session has received: up to ``some`` of what its consumer holds."""
        known = self.branches[number]
        received = self.world.held(self.consumers[session])[:some]
        code = code_of(
            lambda: self.world.manager.xa_end(
                self.sessions[session],
                XIDS[number],
                END_FLAGS[verb],
                [(self.consumers[session], entry) for entry in received],
                self.world.now_us,
            )
        )
        works = self.working[session] == number
        gets = [self.of(entry) for entry in received] if works else []
        others = known.workers - {session}
        if known.state == S.ACTIVE and (not works or (verb == XaVerb.SUSPEND and others)):
            assert code == XaCode.XAER_PROTO
            return
        answer = cell(verb, known.state)
        if answer.code != XaCode.XA_OK:
            assert code == self.code(known, answer.code)
            if known.state == S.ROLLBACK_ONLY and works:
                self.leave(session, known)
            return
        self.leave(session, known)
        known.touched_ms = self.now_ms
        if verb == XaVerb.FAIL:
            assert code == XaCode.XA_OK
            self.roll_back(known, XaVerb.FAIL)
        elif len(known.puts) + len(known.gets) + len(gets) > LIMIT:
            assert code == XaCode.XA_RBOTHER
            self.roll_back(known, XaVerb.GIVE_UP)
        else:
            assert code == XaCode.XA_OK
            for message in gets:
                del self.there[message.queue][message.body]
            known.gets += gets
            if not known.workers:
                known.state, known.owner = answer.to, session

    def decide(self, number: int, verb: XaVerb) -> None:
        known = self.branches[number]
        answer = cell(verb, known.state)
        expected = self.code(known, answer.code)
        if verb == XaVerb.PREPARE and answer.code == XaCode.XA_OK and not known.puts and not known.gets:
            expected, answer = XaCode.XA_RDONLY, cell(XaVerb.COMMIT, S.PREPARED)
        assert code_of(lambda: self.call(verb, XIDS[number])) == expected
        if answer.to == known.state:
            return
        if verb in (XaVerb.COMMIT, XaVerb.COMMIT_ONE_PHASE, XaVerb.HEURISTIC_COMMIT):
            for message in known.puts:
                self.there[message.queue][message.body] = message
            known.puts, known.gets = [], []
        elif verb in (XaVerb.ROLLBACK, XaVerb.HEURISTIC_ROLLBACK):
            self.give_back(known)
        known.state, known.touched_ms, known.owner = answer.to, self.now_ms, None
        if answer.to == S.NONEXISTENT:
            for session in known.workers:
                self.working[session] = None
            known.workers = set()

    def call(self, verb: XaVerb, xid: Xid) -> object:
        manager, now_us = self.world.manager, self.world.now_us
        fields: dict[XaVerb, Callable[[], object]] = {
            XaVerb.PREPARE: lambda: manager.xa_prepare(xid, now_us),
            XaVerb.COMMIT: lambda: manager.xa_commit(xid, False, now_us),
            XaVerb.COMMIT_ONE_PHASE: lambda: manager.xa_commit(xid, True, now_us),
            XaVerb.ROLLBACK: lambda: manager.xa_rollback(xid, now_us),
            XaVerb.FORGET: lambda: manager.xa_forget(xid, now_us),
            XaVerb.HEURISTIC_COMMIT: lambda: manager.heuristic_commit(xid, now_us),
            XaVerb.HEURISTIC_ROLLBACK: lambda: manager.heuristic_rollback(xid, now_us),
            XaVerb.DELETE: lambda: manager.delete_branch(xid, now_us),
        }
        return fields[verb]()

    # -- what befalls them

    def silence(self) -> None:
        self.now_ms += TIMEOUT_MS // 3
        self.world.turn(ms=TIMEOUT_MS // 3)
        for known in self.branches:
            if known.state in UNPREPARED and self.now_ms - known.touched_ms >= TIMEOUT_MS:
                self.roll_back(known, XaVerb.TIME_OUT)

    def close_session(self, session: int, lost: bool) -> None:
        self.world.manager.close_xa_session(self.sessions[session], lost, self.world.now_us)
        self.sessions[session] = self.world.manager.open_xa_session()
        for known in self.branches:
            concerned = session in known.workers or known.owner == session
            self.leave(session, known)
            if known.owner == session:
                known.owner = None
            if not concerned or known.state not in UNPREPARED:
                continue
            if lost:
                self.roll_back(known, XaVerb.SESSION_LOST)
            elif not known.workers:
                if known.state == S.ACTIVE:
                    known.touched_ms = self.now_ms
                known.state = cell(XaVerb.SESSION_CLOSED, known.state).to

    def restart(self) -> None:
        self.world.turn()
        self.world.restart()
        for known in self.branches:
            if known.state in UNPREPARED:
                self.give_back(known)
            known.state = cell(XaVerb.RESTART, known.state).to
            known.workers, known.owner = set(), None
            for message in known.gets:
                message.lost = not message.stored
        self.there = [
            {body: message for body, message in queue.items() if message.stored} for queue in self.there
        ]
        self.working = [None, None]
        self.began()

    # -- the reference

    def code(self, known: Reference, code: XaCode) -> XaCode:
        return known.code if is_rolled_back(code) else code

    def leave(self, session: int, known: Reference) -> None:
        if session in known.workers:
            known.workers.discard(session)
            self.working[session] = None

    def roll_back(self, known: Reference, verb: XaVerb) -> None:
        code = cell(verb, known.state).code
        known.code = code if is_rolled_back(code) else XaCode.XA_RBROLLBACK
        known.state, known.owner = S.ROLLBACK_ONLY, None
        self.give_back(known)

    def give_back(self, known: Reference) -> None:
        for message in known.gets:
            if not message.lost:
                self.there[message.queue][message.body] = message
        known.puts, known.gets = [], []

    def of(self, entry: Any) -> Message:
        queue = QUEUES.index(entry.queue.name)
        return self.there[queue][self.body(entry)]

    def body(self, entry: Any) -> bytes:
        """What was delivered as that entry."""
        return next(
            delivery.body
            for delivery in reversed(self.world.delivered)
            if delivery.entry.serial == entry.serial
        )

    # -- what must hold

    def consumers_hold_what_is_there(self) -> None:
        self.world.turn()
        for queue, consumer in enumerate(self.consumers):
            assert {self.body(entry) for entry in consumer.held} == set(self.there[queue])

    def branches_are_where_they_should_be(self) -> None:
        manager = self.world.manager
        for xid, known in zip(XIDS, self.branches, strict=True):
            assert state_of(manager, xid) == known.state
        in_doubt = {xid for xid, known in zip(XIDS, self.branches, strict=True) if known.state in IN_DOUBT}
        record = manager.xa_recover(manager.open_xa_session(), START_SCAN | END_SCAN, self.world.now_us)
        assert (set(record), len(record)) == (in_doubt, len(in_doubt))
        for row in manager.branches():
            known = self.branches[XIDS.index(row.xid)]
            assert (row.puts, row.receipts) == (len(known.puts), len(known.gets))


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(40), deadline=None)
def test_branches_take_effect_whole_or_not_at_all(seed: int) -> None:
    """Chosen by chance alone: what Hypothesis draws for a machine of rules seldom gets as far as a prepared
    branch."""
    random = Random(seed)
    machine = Machine()
    for _ in range(STEPS):
        machine.step(random)
    check_history(machine.world)
