"""The clients of a simulation: real AMQP engines with a few lines of behaviour each.

An actor owns one connection. Its bytes travel through two pipes that the world carries in pieces of its own
choosing, or cuts.
"""

from random import Random
from typing import TYPE_CHECKING, Protocol

from postroom.amqp.encoding.types import Symbol, ULong
from postroom.amqp.engine.connection import CLOSED, Connection
from postroom.amqp.engine.events import (
    DispositionReceived,
    LinkAttached,
    SenderDispositionReceived,
    TransferReceived,
)
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.message_head import DELIVERY_DELAY
from postroom.amqp.message.sections import Data, Header, Message, Properties, decode_message
from postroom.client.destinations import filters
from postroom.manager.queues.units_of_order import PROPERTY
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.batch import Batch
from tests.simulation.oracle import REMADE, Answer, Broken, Fate, Oracle, Unit, kin_of
from tests.simulation.swarm import CONTAINERS, REDELIVERY_DELAY_US, TOPIC, Swarm

if TYPE_CHECKING:
    from tests.simulation.branches import BranchLog

RCV_SECOND = 1
SND_SETTLED = 1
MAX_UNSETTLED = 40
COPY = Symbol("copy")
WANTS_1 = filters("n = 1")
STATES: dict[str, DeliveryState] = {
    "accepted": ACCEPTED,
    "released": Released(),
    "modified": Modified(delivery_failed=True),
    "rejected": Rejected(),
}


class Surroundings(Protocol):
    """What an actor may know of the world."""

    random: Random
    oracle: Oracle
    now_us: int
    swarm: Swarm
    batches: list[Batch]
    """Of users of the message store who have gone."""
    confirm_ids: int
    """How many have been used."""
    branches: "dict[str, BranchLog]"
    """The transaction managers' logs, by Xid."""

    def passed_us(self) -> int:
        """The clock that nobody can set."""


class Actor:
    """One connection to the broker, from its handshake to its loss."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        self.world = world
        self.name = name
        self.binding = binding
        options = ConnectionOptions(
            server=False, container_id=self.container(), sasl_mechanisms=[], hostname="simulated"
        )
        self.engine = Connection(options, world.passed_us())
        self.engine.open()
        self.session = self.engine.begin()
        self.to_broker = bytearray()
        self.to_client = bytearray()

    def container(self) -> str:
        """Its own."""
        return self.name

    def act(self) -> None:
        """Do one thing that such a client does."""
        raise NotImplementedError

    def collect(self) -> None:
        """Put what both engines have to say into the pipes."""
        self.to_broker += self.engine.data_to_send()
        self.to_client += self.binding.data_to_send()

    def carry_to_broker(self, size: int) -> None:
        data = bytes(self.to_broker[:size])
        del self.to_broker[:size]
        if data and not self.binding.finished:
            self.binding.receive(data, self.world.passed_us(), self.world.now_us)

    def carry_to_client(self, size: int) -> None:
        data = bytes(self.to_client[:size])
        del self.to_client[:size]
        if data:
            for event in self.engine.receive_data(data, self.world.passed_us()):
                self.heard(event)

    def heard(self, event: Event) -> None:
        """React to what the broker said."""
        if isinstance(event, DispositionReceived):
            for delivery in event.deliveries:
                self.answered(delivery.context, event.state)

    def sender(self, queue: str) -> SenderLink:
        """A link to there."""
        return self.session.attach_sender(f"{self.name}-out", Source(), Target(address=queue))

    def sender_again(self, link: SenderLink, queue: str) -> SenderLink:
        """``link``; where its queue was deleted, another. What had no answer by then never gets one."""
        if link.remote_state != CLOSED or self.session.local_state == CLOSED:
            return link
        link.detach()
        return self.sender(queue)

    def answered(self, context: object, state: DeliveryState | None) -> None:
        """The broker's answer to something that this actor sent."""

    def gone(self) -> None:
        """The connection or the broker is gone."""


def new_message(
    world: Surroundings, queue: str, sender: str, unit: Unit | None, padding: int
) -> tuple[Fate, bytes]:
    """A message that ``sender`` sends to ``queue`` now: its id is its body."""
    random, swarm = world.random, world.swarm
    priority = random.choice((4, 4, 4, 0, 9))
    ttl_ms = random.choice((None, None, None, None, 50, 2000))
    delay_ms = random.choice((0, 0, 0, 0, 0, 5, 300))
    durable, published = random.random() < 0.8, queue == TOPIC
    first = swarm.subscriptions[0] if published else queue
    overrides = swarm.overrides(queue)
    stream = (sender, overrides.get("priority_override", priority))
    fate = world.oracle.sent(first, stream, durable, 0, unit)
    if ttl_ms is not None and "ttl_override_ms" not in overrides:
        fate.expiry_us = world.now_us + ttl_ms * 1000
    if delay_ms:
        fate.due_us = world.now_us + delay_ms * 1000
    fate.order_perturbed = delay_ms > 0 or ttl_ms is not None
    if queue == REMADE:  # while it isn't there, whoever sends makes one without a dead-letter queue
        fate.has_dead_letters = False
    if published:
        world.oracle.published(fate, swarm.subscriptions[1:])
    message = Message(
        header=Header(durable=durable, priority=priority, ttl=ttl_ms),
        body=Data([b"%d;" % fate.id + b"x" * padding]),
    )
    if delay_ms:
        message.message_annotations = {DELIVERY_DELAY: ULong(delay_ms)}
    if swarm.names_messages:
        message.properties = Properties(message_id=f"{fate.id}")
    if swarm.selects:
        message.application_properties = {"n": fate.id % 3}
    if swarm.together:
        message.properties = message.properties or Properties()
        message.properties.group_id = kin_of(fate)
        message.application_properties = {**(message.application_properties or {}), PROPERTY: kin_of(fate)}
    return fate, message.encode()


def decode(payload: bytes) -> tuple[int, Header]:
    """Id and header of a message that came."""
    message = decode_message(payload)
    assert isinstance(message.body, Data)
    assert message.header is not None
    return int(message.body.joined().split(b";", 1)[0]), message.header


class Sharing(Actor):
    """One of several connections of a container, in some worlds."""

    def container(self) -> str:
        """See `Actor.container`."""
        shared = "containers" in self.world.swarm.extras
        return self.world.random.choice(CONTAINERS) if shared else self.name


class Producer(Sharing):
    """Sends to one queue, outside transactions, durable or not, settled or not."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.queue = world.random.choice(world.swarm.queues)
        self.link: SenderLink = self.sender(self.queue)
        self.sent = 0

    def act(self) -> None:
        random = self.world.random
        self.link = self.sender_again(self.link, self.queue)
        for _ in range(random.randrange(1, 6)):
            if not self.link.attached or self.link.credit <= 0:
                return
            self.send(None, b"")

    def send(self, unit: Unit | None, txn_id: bytes) -> None:
        padding = self.world.random.choice(self.world.swarm.paddings)
        fate, payload = new_message(self.world, self.queue, self.name, unit, padding)
        state = TransactionalState(txn_id) if txn_id else None
        self.sent += 1
        self.link.send(payload, self.sent.to_bytes(4, "big"), False, state=state, context=fate)

    def answered(self, context: object, state: DeliveryState | None) -> None:
        if isinstance(context, Fate) and context.unit is None:
            self.world.oracle.answered(
                context, Answer.ACCEPTED if isinstance(state, Accepted) else Answer.REFUSED
            )


class Consumer(Sharing):
    """Takes from one queue and settles in its own time, in any way a client can."""

    takes = True
    """Else it only looks."""
    may_presettle = True

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding, queue: str = "") -> None:
        super().__init__(world, name, binding)
        self.queue = queue or world.random.choice(world.swarm.sources)
        self.wanted = 1 if world.swarm.selects and not queue and world.random.random() < 0.4 else None
        self.second = world.random.random() < 0.5
        self.presettled = self.may_presettle and not (self.second or queue) and world.random.random() < 0.1
        if self.takes:
            world.oracle.presettled[self.queue] += self.presettled
        self.link = self.attach()
        self.held: dict[int, Fate] = {}
        self.waiting: dict[int, tuple[Fate, str, int]] = {}
        """Settled here and not yet there: the message, the outcome, and when it was given."""
        self.failed: list[tuple[Fate, int]] = []
        """Given back as failed without waiting for an answer, and until when none of them may come again."""

    def attach(self) -> ReceiverLink:
        source = Source(address=self.queue, filter=WANTS_1 if self.wanted else None)
        return self.receiver(f"{self.name}-in", source)

    def receiver(self, name: str, source: Source) -> ReceiverLink:
        """A link to there, which settles as this consumer does."""
        return self.session.attach_receiver(
            name,
            source,
            Target(),
            snd_settle_mode=SND_SETTLED if self.presettled else 0,
            rcv_settle_mode=RCV_SECOND if self.second else 0,
        )

    def act(self) -> None:
        random = self.world.random
        if not self.link.attached:
            return
        if random.random() < 0.4 and len(self.held) < MAX_UNSETTLED:
            self.grant_credit(random.randrange(1, 30), random.random() < 0.2)
        elif self.held:
            self.settle_some()

    def grant_credit(self, credit: int, drain: bool) -> None:
        """Credit is taken back only where order isn't judged: what was on its way then returns unseen."""
        if credit < self.link.credit and self.world.oracle.judges_order:
            credit = self.link.credit
        self.link.flow(credit, drain=drain)

    def settle_some(self) -> None:
        random = self.world.random
        first = random.choice(list(self.held))
        if random.random() < 0.6:
            first = next(iter(self.held))
        outcome, state = self.choose()
        self.dispose(first, outcome, state)

    def choose(self) -> tuple[str, DeliveryState]:
        roll = self.world.random.random()
        accepts = 0.5 if self.queue in self.world.oracle.redelivery_limits else 0.75
        if roll < accepts:
            outcome = "accepted"
        elif roll < accepts + 0.08:
            outcome = "released"
        elif roll < 0.91:
            outcome = "modified"
        else:
            outcome = "rejected"
        return outcome, STATES[outcome]

    def dispose(self, delivery_id: int, outcome: str, state: DeliveryState) -> None:
        fate = self.held.pop(delivery_id)
        self.give(fate, outcome)
        self.link.settle(delivery_id, delivery_id, state, settled=not self.second)
        if self.second:
            self.waiting[delivery_id] = (fate, outcome, self.world.now_us)
        elif outcome == "modified" and self.delays(fate):
            fate.failed_until_us = self.world.now_us + REDELIVERY_DELAY_US
            self.failed.append((fate, fate.failed_until_us))

    def give(self, fate: Fate, outcome: str) -> None:
        """The client has decided; the broker hears of it later."""
        fate.holder = ""
        if outcome in ("released", "modified"):
            fate.order_perturbed = True
            fate.released = fate.released or outcome == "released"
            fate.failed_us = self.world.now_us if outcome == "modified" else fate.failed_us
        else:
            self.world.oracle.gave(fate, outcome)

    def delays(self, fate: Fate) -> bool:
        """Whether the queue has a redelivery delay for it."""
        return fate.queue == self.queue and self.queue in self.world.oracle.redelivery_limits

    def heard(self, event: Event) -> None:
        super().heard(event)
        if isinstance(event, TransferReceived):
            self.received(event)
        elif isinstance(event, SenderDispositionReceived) and event.settled:
            for delivery_id in event.delivery_ids:
                if delivery_id in self.waiting:
                    self.settled(*self.waiting.pop(delivery_id))

    def settled(self, fate: Fate, outcome: str, given_us: int) -> None:
        """The broker has settled, too: the outcome holds."""
        if outcome in ("accepted", "rejected"):
            self.world.oracle.settled(fate, outcome)
        elif outcome == "modified" and fate.queue == self.queue:
            fate.failures += 1
            if self.delays(fate):
                fate.due_us = max(fate.due_us, given_us + REDELIVERY_DELAY_US)

    def received(self, event: TransferReceived) -> None:
        id, header = decode(event.payload)
        now_us, settled = self.world.now_us, event.settled
        fate = self.world.oracle.delivered(id, self.queue, header, self.name, now_us, settled)
        if self.wanted is not None and id % 3 != self.wanted:
            raise Broken(f"message {id} does not match the selector of {self.name}")
        if event.settled:
            fate.holder = ""
            self.world.oracle.settled(fate, "pre-settled")
            fate.given.add("pre-settled")
        else:
            self.held[event.delivery_id] = fate

    def gone(self) -> None:
        for fate in self.held.values():
            fate.order_perturbed = True
            fate.holder = ""
        for fate, until_us in self.failed:  # the broker may have heard of the loss alone: no delay
            if fate.failed_until_us == until_us:
                fate.failed_until_us = 0
        self.world.oracle.presettled[self.queue] -= self.presettled
        self.world.oracle.deliveries_returned(self.queue, self.presettled)


class Browser(Consumer):
    """Looks at a queue and takes nothing."""

    takes = False

    def attach(self) -> ReceiverLink:
        self.presettled = True
        return self.receiver(f"{self.name}-look", Source(address=self.queue, distribution_mode=COPY))

    def received(self, event: TransferReceived) -> None:
        self.world.oracle.seen(decode(event.payload)[0], self.queue, self.world.now_us, since_us=0)

    def gone(self) -> None:
        """Nothing was taken."""


class Reattacher(Consumer):
    """Closes its link now and then, and attaches another of that name in the same session."""

    def act(self) -> None:
        if self.link.attached and self.world.random.random() < 0.1:
            self.link.detach()
            self.let_go()
        elif self.link.local_state == CLOSED and self.link.remote_state == CLOSED:
            self.link = self.attach()
        else:
            super().act()

    def let_go(self) -> None:
        """What it had goes back, when the broker has heard of it; uncounted, if that was in time."""
        for fate in [*self.held.values(), *(fate for fate, _, _ in self.waiting.values())]:
            fate.released = True
        super().gone()
        self.world.oracle.presettled[self.queue] += self.presettled
        self.held.clear()
        self.failed.clear()

    def heard(self, event: Event) -> None:
        if not isinstance(event, TransferReceived) or self.link.attached:
            super().heard(event)


class Resumer(Consumer):
    """Detaches its link now and then without closing it, goes on settling, and resumes it in its session.
    What it has stays its own, unless it is a durable subscription's."""

    may_presettle = False

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        self.tags: dict[bytes, int] = {}
        """Of what it has been given, and the delivery ids of then."""
        self.offered: dict[bytes, DeliveryState | None] | None = None
        """Its unsettled map, until the broker has answered with its own; None: the link begins anew."""
        self.given_in_map: set[int] = set()
        """Ids of deliveries with an outcome that was said in no other way."""
        self.resuming: dict[bytes, int] = {}
        """What both maps have, until the broker has spoken of it."""
        super().__init__(world, name, binding)

    def receiver(self, name: str, source: Source) -> ReceiverLink:
        return self.session.attach_receiver(
            name, source, Target(), rcv_settle_mode=RCV_SECOND if self.second else 0, unsettled=self.offered
        )

    def act(self) -> None:
        random, link = self.world.random, self.link
        if link.attached and self.resuming:
            self.grant_credit(random.randrange(1, 30), False)
        elif link.attached and random.random() < 0.15:
            self.detach()
        elif link.local_state != CLOSED:
            super().act()
        elif self.held and random.random() < 0.6:
            self.settle_some()
        elif link.remote_state == CLOSED:
            self.resume()

    def detach(self) -> None:
        self.link.detach(closed=False)
        if self.queue in self.world.swarm.subscriptions:
            self.let_go()
        elif self.world.oracle.together.get(self.queue) == "exclusive":
            for fate in self.held.values():  # whoever waits behind this one takes over
                fate.holder = ""

    def resume(self) -> None:
        """Attach the link again with the map of what is open: some of it has an outcome by now."""
        self.world.oracle.deliveries_returned(self.queue, False)
        self.offered = {}
        for tag, delivery_id in list(self.tags.items()):
            if delivery_id in self.waiting:
                self.offered[tag] = STATES[self.waiting[delivery_id][1]]
            elif delivery_id not in self.held:
                del self.tags[tag]
            elif self.world.random.random() < 0.4:
                self.offered[tag] = self.give_in_map(delivery_id)
            else:
                self.offered[tag] = None
                self.held[delivery_id].holder = ""  # it goes back, and comes again as another delivery
        self.link = self.attach()

    def give_in_map(self, delivery_id: int) -> DeliveryState:
        outcome, state = self.choose()
        fate = self.held.pop(delivery_id)
        self.give(fate, outcome)
        self.waiting[delivery_id] = (fate, outcome, self.world.now_us)
        self.given_in_map.add(delivery_id)
        return state

    def heard(self, event: Event) -> None:
        if isinstance(event, LinkAttached) and self.offered is not None:
            self.compare(self.offered, event.attach.unsettled)
            self.offered = None
        if not isinstance(event, TransferReceived) or self.link.attached:
            super().heard(event)

    def compare(
        self, ours: dict[bytes, DeliveryState | None], theirs: dict[bytes, DeliveryState | None] | None
    ) -> None:
        """What the broker doesn't have open, it has settled in answer to an outcome, or it has gone back."""
        if theirs is None:
            self.let_go()
            return
        for tag in ours:
            delivery_id = self.tags[tag]
            if tag in theirs:
                self.resuming[tag] = delivery_id
                continue
            del self.tags[tag]
            if delivery_id in self.held:
                self.gone_back(self.held.pop(delivery_id))
            elif delivery_id in self.given_in_map:
                del self.waiting[delivery_id]
            else:
                self.settled(*self.waiting.pop(delivery_id))

    def received(self, event: TransferReceived) -> None:
        if event.tag not in self.resuming:
            self.tags[event.tag] = event.delivery_id
            super().received(event)
        elif not event.more:
            delivery_id = self.resuming.pop(event.tag)
            del self.tags[event.tag]
            if not event.aborted:
                self.settled(*self.waiting.pop(delivery_id))
            elif delivery_id in self.waiting:
                raise Broken(f"{self.name} has given an outcome, and the delivery was aborted")
            else:
                self.gone_back(self.held.pop(delivery_id))

    def gone_back(self, fate: Fate) -> None:
        fate.order_perturbed = fate.released = True
        fate.holder = ""

    def let_go(self) -> None:
        """The broker knows nothing of it any more: what it had goes back, or has; perhaps uncounted."""
        for fate in [*self.held.values(), *(fate for fate, _, _ in self.waiting.values())]:
            self.gone_back(fate)
        super().gone()
        for left in (self.held, self.waiting, self.tags, self.resuming):
            left.clear()
        self.failed.clear()


class Requester(Consumer):
    """Has a temporary queue, to which it sends and from which it takes."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        self.out: SenderLink | None = None
        self.sent = 0
        super().__init__(world, name, binding, f"~temporary of {name}")

    def attach(self) -> ReceiverLink:
        return self.receiver(f"{self.name}-in", Source(dynamic=True))

    def act(self) -> None:
        attached = self.link.peer_attach
        if self.out is not None and self.out.credit > 0 and self.world.random.random() < 0.5:
            fate, payload = new_message(self.world, self.queue, self.name, None, 10)
            fate.has_dead_letters = False
            self.sent += 1
            self.out.send(payload, self.sent.to_bytes(4, "big"), False, context=fate)
        elif self.out is None and attached is not None and attached.source is not None:
            target = Target(address=attached.source.address)
            self.out = self.session.attach_sender(f"{self.name}-out", Source(), target)
        else:
            super().act()

    def answered(self, context: object, state: DeliveryState | None) -> None:
        assert isinstance(context, Fate)
        accepted = isinstance(state, Accepted)
        self.world.oracle.answered(context, Answer.ACCEPTED if accepted else Answer.REFUSED)

    def gone(self) -> None:
        """With its connection the queue has gone, and all that was on it."""
        super().gone()
        for fate in self.world.oracle.fates.values():
            fate.lost_possible = fate.lost_possible or fate.queue == self.queue


class Reader(Consumer):
    """Reads a queue to its end, accepting everything."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding, queue: str) -> None:
        super().__init__(world, name, binding, queue)
        self.ids: list[int] = []

    def act(self) -> None:
        if self.link.attached and self.link.credit < 100:
            self.link.flow(200)
        for delivery_id in list(self.held):
            fate = self.held.pop(delivery_id)
            fate.holder = ""
            self.link.settle(delivery_id, delivery_id, ACCEPTED, settled=not self.second)
            self.ids.append(fate.id)
