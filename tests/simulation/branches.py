"""A transaction manager with XA branches: it works in one at a time, prepares, decides, and after a loss
takes up what is in doubt.

Its memory outlives connections and crashes of the broker, as a transaction manager's log does: which branches
it has requested to prepare, which it has decided, and how. What it requires of the broker is what XA
promises: a prepared branch is reported by every recover until it is decided and by none afterwards, no other
is ever reported, and what a prepared branch holds nobody sees.
"""

from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter

from postroom.amqp.encoding.types import Int, UInt
from postroom.amqp.engine.events import SenderDispositionReceived, TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import Declare, Declared, DeliveryState, Rejected, TransactionalState
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.message.sections import Message
from postroom.model.xa import XaCode, XaFlag, Xid
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.actors import Surroundings, decode, new_message
from tests.simulation.managers import OK, Manager, parts_of
from tests.simulation.oracle import NEVER_US, Answer, Broken, Fate, Unit
from tests.simulation.transactors import AMQP_VALUE_SECTION

BRANCH_TYPE: Final = "postroom.xa-branch"
MOST_HELD = 5
NOT_PREPARED: Final = ("starting", "working", "ending", "ended", "rolling back")
"""Steps in which the branch goes with its session."""
IN_DOUBT: Final = ("preparing", "prepared", "deciding", "heuristic", "forgetting")
"""Steps in which recover may report it; of what is prepared or heuristically decided it must."""
MUST_BE_REPORTED: Final = ("prepared", "heuristic")


@dataclass(eq=False)
class BranchLog:
    """What the transaction manager knows of one branch. ``step`` is one of `NOT_PREPARED`, of `IN_DOUBT`,
    "one phase" or "done"."""

    xid: Xid
    unit: Unit
    owner: str
    """Which connection drives it; "" none since the last one was lost."""
    step: str = "starting"
    commits: bool = False
    """How it is decided, once it is."""
    was_requested: bool = False
    """The broker was requested to commit it or roll it back."""
    by_administrator: bool = False
    """Decided heuristically."""
    is_reported: bool = False
    """The oracle knows how it was decided."""
    changes: int = 0
    """Times that its step has changed."""

    def to(self, step: str) -> None:
        self.step = step
        self.changes += 1


class Brancher(Manager):
    """Recovers first, decides what others have left, and then works in branches of its own."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.control: SenderLink = self.session.attach_sender(f"{name}-control", Source(), Coordinator())
        self.target = world.random.choice(world.swarm.queues)
        self.out: SenderLink = self.session.attach_sender(
            f"{name}-out", Source(), Target(address=self.target)
        )
        self.link: ReceiverLink = self.session.attach_receiver(
            f"{name}-in", Source(address=self.queue), Target(), properties={"x-opt-xa": True}
        )
        self.held: dict[int, Fate] = {}
        """Received and in no branch yet, by delivery."""
        self.log: BranchLog | None = None
        self.txn_id = b""
        self.sent = 0
        self.verb = ""
        """What was asked last, of `about` if of one branch."""
        self.about: BranchLog | None = None
        self.again = False
        """It was asked to decide before, perhaps by another, and nobody knows whether it has."""
        self.before: dict[str, int] = {}
        """When recover was asked: how often each branch had changed its step."""
        self.recovered = False
        self.finishes = False
        """Begins nothing."""

    def go_on(self) -> None:
        if not (self.control.attached and self.control.credit > 0):
            return
        if not self.recovered:
            self.recover()
        elif (left := self.left()) is not None and (self.finishes or self.world.random.random() < 0.2):
            self.go_on_to_its_end(left)
        elif self.log is not None:
            self.go_on_with(self.log)
        elif not self.finishes:
            self.start()

    def left(self) -> BranchLog | None:
        """A branch that this one has taken up, or laid aside, and is not done with."""
        mine = (log for log in self.world.branches.values() if log.owner == self.name)
        return next((log for log in mine if log is not self.log and log.step != "done"), None)

    # What is asked.

    def recover(self) -> None:
        self.before = {text: log.changes for text, log in self.world.branches.items()}
        self.request("RECOVER", None, XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN)

    def start(self) -> None:
        xid = Xid(1, b"global %d" % len(self.world.branches), b"postroom")
        self.log = self.world.branches[str(xid)] = BranchLog(xid, Unit(), self.name)
        payload = BytesWriter()
        payload.write(AMQP_VALUE_SECTION)
        Declare([Int(xid.format_id), xid.gtrid, xid.bqual]).write(payload)
        self.control.send(payload.getvalue(), b"%d" % len(self.world.branches), False, context="start")

    def go_on_with(self, log: BranchLog) -> None:
        random = self.world.random
        if log.step == "working":
            if random.random() < (0.3 if log.unit.received else 0.8):
                self.work(log)
            else:
                self.end(log)
        elif log.step == "ended":
            verb = random.choice(("PREPARE", "PREPARE", "PREPARE", "COMMIT", "ROLLBACK"))
            if verb == "PREPARE":
                log.unit.decision = "prepared"
                log.to("preparing")
            elif verb == "COMMIT":
                self.about_to_commit(log, "committing")
                log.to("one phase")
            else:
                self.withhold(log.unit, 0)
                log.to("rolling back")
            self.request(verb, log, XaFlag.TMONEPHASE if verb == "COMMIT" else XaFlag.TMNOFLAGS)
        elif log.step == "prepared":
            choice = random.random()
            if choice < 0.15:
                self.decide(log)
            elif choice < 0.2:
                self.administer(log)
            elif choice < 0.4:
                self.log = None  # to be decided later: a session may own many

    def end(self, log: BranchLog) -> None:
        """What it has been given becomes the branch's; or, where a send that waited for room was refused, it
        goes back before this one hears of it."""
        for fate in self.held.values():
            fate.holder = ""
        log.to("ending")
        self.request("END", log, XaFlag.TMSUCCESS)

    def work(self, log: BranchLog) -> None:
        """Grant credit, and send a message."""
        if self.link.attached and self.link.credit == 0 and len(self.held) < MOST_HELD:
            self.link.flow(self.world.random.randrange(1, MOST_HELD))
        if self.out.attached and self.out.credit > 0:
            fate, payload = new_message(self.world, self.target, self.name, log.unit, 10)
            self.sent += 1
            state = TransactionalState(self.txn_id)
            self.out.send(payload, self.sent.to_bytes(4, "big"), False, state=state, context=fate)

    def go_on_to_its_end(self, log: BranchLog) -> None:
        if log.step in ("heuristic", "forgetting"):
            self.again = log.step == "forgetting"
            log.to("forgetting")
            self.request("FORGET", log, XaFlag.TMNOFLAGS)
        else:
            self.decide(log)

    def administer(self, log: BranchLog) -> None:
        """Decide it as an administrator, unless one may have, by deleting a queue."""
        if log.unit.may_be_forced:
            self.decide(log)
            return
        log.by_administrator = True
        log.commits = self.world.random.random() < 0.5
        if log.commits:
            self.about_to_commit(log, "deciding")
        self.withhold(log.unit, 0)
        log.to("deciding")
        self.log = None
        self.request("HEURISTIC-COMMIT" if log.commits else "HEURISTIC-ROLLBACK", log, XaFlag.TMNOFLAGS)

    def decide(self, log: BranchLog) -> None:
        """As was decided before, or by a coin."""
        if log.step != "deciding":
            log.commits = self.world.random.random() < 0.6
        if log.commits:
            self.about_to_commit(log, "deciding")
        self.withhold(log.unit, 0)
        self.again, log.was_requested = log.was_requested, True
        log.to("deciding")
        self.request("COMMIT" if log.commits else "ROLLBACK", log, XaFlag.TMNOFLAGS)

    def about_to_commit(self, log: BranchLog, decision: str) -> None:
        log.unit.decision = decision
        self.withhold(log.unit, 0)
        for fate in log.unit.received:
            self.world.oracle.gave(fate, f"committed in {log.xid}")

    def request(self, verb: str, log: BranchLog | None, flags: XaFlag) -> None:
        self.verb, self.about = verb, log
        fields: dict[str, object] = {"flags": UInt(flags)} if verb in ("END", "COMMIT", "RECOVER") else {}
        if log is not None:
            fields["xid"] = fields["name"] = str(log.xid)
        self.send_request(verb, BRANCH_TYPE, fields)

    # What is answered.

    def answered(self, context: object, state: DeliveryState | None) -> None:
        if context == "start" and self.log is not None:
            if not isinstance(state, Declared):
                raise Broken(f"branch {self.log.xid} could not be started: {state}")
            self.txn_id = bytes(state.txn_id)
            self.log.to("working")
        elif isinstance(context, Fate):
            outcome = state.outcome if isinstance(state, TransactionalState) else state
            if isinstance(outcome, Rejected):
                self.world.oracle.answered(context, Answer.REFUSED)

    def on_reply(self, reply: Message) -> None:
        status, condition, body = parts_of(reply)
        code = body.get("xa-code")
        if status != OK and condition != "postroom:xa-error":
            raise Broken(f"{self.verb} was answered with {status} {condition}")
        if self.verb == "RECOVER":
            xids = body["xids"]
            assert isinstance(xids, list)
            self.on_recovered([str(xid) for xid in xids])
        elif self.about is not None:
            self.on_code(self.about, self.verb, XaCode(code) if isinstance(code, int) else XaCode.XAER_RMERR)

    def on_code(self, log: BranchLog, verb: str, code: XaCode) -> None:
        if verb == "END" and code == XaCode.XA_OK:
            log.to("ended")
        elif verb == "PREPARE" and code == XaCode.XA_OK:
            log.to("prepared")
        elif log.step == "deciding":
            self.on_decided(log, verb, code)
        elif log.step == "forgetting":
            if code != XaCode.XA_OK and not (code == XaCode.XAER_NOTA and self.again):
                raise Broken(f"the outcome of branch {log.xid} could not be forgotten: {code.name}")
            self.done(log, log.commits)
        else:  # rolled back, or committed in one phase
            self.done(log, log.step == "one phase" and code == XaCode.XA_OK)

    def on_decided(self, log: BranchLog, verb: str, code: XaCode) -> None:
        heuristic = XaCode.XA_HEURCOM if log.commits else XaCode.XA_HEURRB
        if log.by_administrator and (code == heuristic or verb.startswith("HEURISTIC")):
            self.report_to_oracle(log, log.commits)
            log.to("heuristic")
        elif code == XaCode.XA_HEURRB and log.unit.may_be_forced:
            self.report_to_oracle(log, False)
            log.to("heuristic")
        elif code == XaCode.XA_OK or (code == XaCode.XAER_NOTA and self.again):
            self.done(log, log.commits)
        else:
            raise Broken(f"prepared branch {log.xid} was sent {verb} and answered {code.name}")

    def on_recovered(self, xids: list[str]) -> None:
        """What is in doubt. What has changed since the request is not judged."""
        self.recovered = True
        for text in xids:
            if text not in self.world.branches:
                raise Broken(f"branch {text} is in doubt and nobody has begun it")
        for text, changes in self.before.items():
            log = self.world.branches[text]
            if log.changes != changes:
                continue
            if text in xids and log.step not in IN_DOUBT:
                raise Broken(f"branch {text} is in doubt though it is {log.step}")
            if text not in xids and log.step in MUST_BE_REPORTED:
                raise Broken(f"branch {text} is {log.step} and is not reported")
            if log.step in IN_DOUBT and not log.owner:
                self.take_up(log, text in xids)

    def take_up(self, log: BranchLog, in_doubt: bool) -> None:
        if not in_doubt:  # not prepared, or decided as it was to be
            if log.by_administrator and log.step == "deciding" and not log.was_requested:
                raise Broken(f"branch {log.xid} was decided by an administrator and forgotten by nobody")
            self.done(log, log.step != "preparing" and log.commits)
            return
        log.owner = self.name
        if log.step == "preparing":
            log.to("prepared")
            self.withhold(log.unit, NEVER_US)

    def done(self, log: BranchLog, committed: bool) -> None:
        log.to("done")
        self.report_to_oracle(log, committed)
        if log is self.log:
            self.log = None

    def report_to_oracle(self, log: BranchLog, committed: bool) -> None:
        if log.is_reported:
            return
        log.is_reported = True
        self.withhold(log.unit, 0)
        if not committed:
            for fate in log.unit.received:
                fate.given.discard(f"committed in {log.xid}")
        self.world.oracle.decided(log.unit, committed)

    def withhold(self, unit: Unit, until_us: int) -> None:
        for fate in unit.received:
            fate.withheld_until_us = until_us

    # Messages.

    def heard(self, event: Event) -> None:
        if isinstance(event, TransferReceived) and event.link is self.link:
            self.held[event.delivery_id] = self.given(event)
        elif isinstance(event, SenderDispositionReceived) and event.link is self.link:
            self.settled(event)
        else:
            super().heard(event)

    def given(self, event: TransferReceived) -> Fate:
        id, header = decode(event.payload)
        oracle = self.world.oracle
        if self.log is not None and self.log.step == "ending":  # see `end`
            fate = oracle.seen(id, self.queue, self.world.now_us)
            fate.deliveries += 1
            fate.acquired = True
            return fate
        return oracle.delivered(id, self.queue, header, self.name, self.world.now_us)

    def settled(self, event: SenderDispositionReceived) -> None:
        """At the end of a branch: what it was given, or what has gone back."""
        for delivery_id in event.delivery_ids:
            fate = self.held.pop(delivery_id)
            is_of_branch = isinstance(event.state, TransactionalState)
            if is_of_branch and fate.holder not in ("", self.name) and not fate.may_go_back:
                raise Broken(f"message {fate.id} is in a branch of {self.name} while {fate.holder} has it")
            if fate.holder == self.name:
                fate.holder = ""
            fate.order_perturbed = True
            if is_of_branch and self.log is not None:
                self.log.unit.receive(fate)
                fate.withheld_until_us = NEVER_US

    def gone(self) -> None:
        """What is not prepared is rolled back; the rest somebody will take up."""
        for fate in self.held.values():
            fate.order_perturbed = True
            if fate.holder == self.name:
                fate.holder = ""
        self.world.oracle.deliveries_returned(self.queue, False)
        for log in self.world.branches.values():
            if log.owner == self.name and log.step != "done":
                self.forsake(log)

    def forsake(self, log: BranchLog) -> None:
        log.owner = ""
        log.changes += 1  # its last word may have overtaken somebody's question what is in doubt
        if log.step in NOT_PREPARED:
            self.done(log, False)
        elif log.step == "one phase":
            log.to("done")
            self.world.oracle.undecided(log.unit)
        elif log.step == "preparing":
            self.withhold(log.unit, 0)
