"""Clients with local transactions: what they send and take in one stands or falls together."""

from random import Random

from librt.strings import BytesWriter

from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Rejected,
    TransactionalState,
)
from postroom.amqp.frames.termini import Coordinator, Source
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.actors import Actor, Consumer, Producer, Surroundings, new_message
from tests.simulation.oracle import Answer, Broken, Fate, Unit

ACQUIRES_CHANCE = 0.4
AMQP_VALUE_SECTION = b"\x00\x53\x77"


class Transactor(Actor):
    """Works in a local transaction and discharges it, one way or the other; what work is, subclasses say."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.control: SenderLink = self.session.attach_sender(f"{name}-control", Source(), Coordinator())
        self.unit: Unit | None = None
        self.txn_id = b""
        self.requests = 0

    def act(self) -> None:
        if not (self.control.attached and self.control.credit > 0):
            return
        if self.unit is None:
            self.unit = Unit()
            self.request(Declare(None), "declare")
        elif self.txn_id and self.unit.decision == "open":
            self.go_on(self.unit)

    def go_on(self, unit: Unit) -> None:
        if self.world.random.random() >= 0.8 or not self.work(unit):
            self.discharge(unit, self.world.random.random() < 0.7)

    def work(self, unit: Unit) -> bool:
        """Do something in it; False if there is nothing to be done."""
        raise NotImplementedError

    def discharge(self, unit: Unit, commit: bool) -> None:
        unit.decision = "committing" if commit else "rolling back"
        self.request(Discharge(self.txn_id, not commit), "commit" if commit else "roll back")

    def request(self, body: Declare | Discharge, context: str) -> None:
        self.requests += 1
        payload = BytesWriter()
        payload.write(AMQP_VALUE_SECTION)
        body.write(payload)
        self.control.send(payload.getvalue(), self.requests.to_bytes(4, "big"), False, context=context)

    def answered(self, context: object, state: DeliveryState | None) -> None:
        if context == "declare" and isinstance(state, Declared):
            self.txn_id = bytes(state.txn_id)
        elif context in ("commit", "roll back") and self.unit is not None:
            self.decided(self.unit, context == "commit" and isinstance(state, Accepted))
            self.unit, self.txn_id = None, b""
        elif isinstance(context, Fate) and isinstance(_outcome(state), Rejected):
            self.world.oracle.answered(context, Answer.REFUSED)

    def decided(self, unit: Unit, committed: bool) -> None:
        """The coordinator has answered."""
        self.world.oracle.decided(unit, committed)

    def gone(self) -> None:
        super().gone()
        if self.unit is not None and self.unit.decision in ("open", "rolling back"):
            self.world.oracle.decided(self.unit, False)
        elif self.unit is not None and self.unit.decision == "committing":
            self.world.oracle.undecided(self.unit)


def _outcome(state: DeliveryState | None) -> DeliveryState | None:
    """What a state says, in its transaction or not."""
    return state.outcome if isinstance(state, TransactionalState) else state


class Sender(Transactor, Producer):
    """Sends several messages in each transaction."""

    def work(self, unit: Unit) -> bool:
        self.link = self.sender_again(self.link, self.queue)
        if not (self.link.attached and self.link.credit > 0):
            return False
        self.send(unit, self.txn_id)
        return True


class Taker(Transactor, Consumer):
    """Takes messages in each transaction, and sends others in the same."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.target = world.random.choice(world.swarm.queues)
        self.out: SenderLink = self.sender(self.target)
        self.sent = 0
        self.in_unit: dict[int, Fate] = {}
        """By delivery: accepted in the transaction, and not settled if this consumer waits for the broker."""
        self.others: list[tuple[Fate, str]] = []
        """What else was said of messages in the transaction."""
        self.acquires = not self.presettled and Random(f"acquires {name}").random() < ACQUIRES_CHANCE
        """Whether it acquires in its transactions; drawn apart, so that seeds stay what they were."""
        self.acquired: dict[int, Fate] = {}
        """By delivery: what it has acquired in the transaction."""

    def work(self, unit: Unit) -> bool:
        if not self.link.attached:
            return False
        if self.link.credit == 0 and len(self.held) < 10:
            self.link.flow(10, txn_id=self.txn_id if self.acquires else None)
        if self.held:
            self.take(unit, next(iter(self.held)))
        elif not unit.received:
            return True
        self.out = self.sender_again(self.out, self.target)
        if not (self.out.attached and self.out.credit > 0):
            return bool(self.held)
        fate, payload = new_message(self.world, self.target, self.name, unit, 10)
        self.sent += 1
        state = TransactionalState(self.txn_id)
        self.out.send(payload, self.sent.to_bytes(4, "big"), False, state=state, context=fate)
        return True

    def take(self, unit: Unit, delivery_id: int) -> None:
        fate = self.held.pop(delivery_id)
        outcome: str = "accepted"
        state: DeliveryState = ACCEPTED
        if "outcomes" in self.world.swarm.extras:
            outcome, state = self.choose()
        if outcome == "accepted":
            unit.receive(fate)
        else:
            unit.touch(fate)
            fate.order_perturbed = True
            fate.released = fate.released or outcome == "released"
            self.others.append((fate, outcome))
        if self.second:
            self.in_unit[delivery_id] = fate
        transactional = TransactionalState(self.txn_id, state)
        self.link.settle(delivery_id, delivery_id, transactional, settled=not self.second)

    def discharge(self, unit: Unit, commit: bool) -> None:
        """From now on what was taken may be somebody else's, unless it was left unsettled; what was acquired
        may in any case."""
        super().discharge(unit, commit)
        for fate in self.acquired.values():
            fate.holder = ""
        for fate in unit.received:
            fate.order_perturbed = True
            if commit or not self.second:
                fate.holder = ""
            if commit:
                self.world.oracle.gave(fate, self.committed())
        for fate, outcome in self.others:
            if commit or not self.second:
                fate.holder = ""
            if commit and outcome == "rejected":
                self.world.oracle.gave(fate, self.committed())

    def received(self, event: TransferReceived) -> None:
        super().received(event)
        state = event.state
        if isinstance(state, TransactionalState):
            fate = self.acquired[event.delivery_id] = self.held[event.delivery_id]
            if bytes(state.txn_id) != self.txn_id:
                raise Broken(f"message {fate.id} was acquired in another transaction than {self.name} has")
            if self.unit is not None:
                self.unit.touch(fate)
                fate.holder = fate.holder if self.unit.decision == "open" else ""

    def committed(self) -> str:
        return f"committed by {self.name}"

    def decided(self, unit: Unit, committed: bool) -> None:
        """What a rollback leaves unsettled is still here."""
        super().decided(unit, committed)
        for fate, outcome in self.others:
            fate.given.discard(self.committed())
            if committed and outcome == "rejected":
                self.world.oracle.gave(fate, "rejected")
                self.world.oracle.settled(fate, "rejected")
        if not committed:
            for fate in unit.received:
                fate.given.discard(self.committed())
            for fate in self.acquired.values():
                fate.order_perturbed = fate.released = True
            self.held = {id: fate for id, fate in self.held.items() if id not in self.acquired}
            for delivery_id, fate in self.in_unit.items():
                if delivery_id not in self.acquired:
                    fate.holder = self.name
                    self.held[delivery_id] = fate
        for delivery_id in self.acquired:
            if delivery_id in self.held:
                self.held[delivery_id].holder = self.name
        self.acquired.clear()
        self.in_unit.clear()
        self.others.clear()

    def gone(self) -> None:
        super().gone()
        for fate, _ in self.others:
            fate.holder = ""
