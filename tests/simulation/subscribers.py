"""Subscribers that are not durable: what is published while a subscription has a link is for it."""

from postroom.amqp.engine.events import LinkAttached, TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.extensions import SHARED_CAPABILITY, TOPIC_CAPABILITY
from postroom.amqp.frames.outcomes import ACCEPTED, Accepted, DeliveryState
from postroom.amqp.frames.termini import EXPIRY_LINK_DETACH, Source, Target
from postroom.client.destinations import filters
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.actors import WANTS_1, Consumer, Surroundings, decode, new_message
from tests.simulation.oracle import Answer, Broken, Fate, Subscribed
from tests.simulation.swarm import TOPIC

SHARED = "~shared"
"""The one subscription that several links share."""


class Subscriber(Consumer):
    """Consumes from a subscription of its own, or from the one that is shared."""

    may_share = True

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        self.shares = world.random.random() < 0.4 and self.may_share
        self.selective = world.swarm.selects and not self.shares and world.random.random() < 0.4
        self.knows = False
        """It was answered that it is attached."""
        self.subscribed = self._subscribe(world, SHARED if self.shares else f"~{name}")
        super().__init__(world, name, binding, self.subscribed.name)
        self.wanted = 1 if self.selective else None
        self.greedy = False
        """Takes and accepts everything that comes."""

    def _subscribe(self, world: Surroundings, name: str) -> Subscribed:
        found = world.oracle.subscribed.get(name)
        if found is None or not found.links:
            found = Subscribed(name, world.oracle.moment, 1 if self.selective else None)
            world.oracle.subscribe(found)
        found.links += 1
        return found

    def attach(self) -> ReceiverLink:
        capabilities = [TOPIC_CAPABILITY, *([SHARED_CAPABILITY, "global"] if self.shares else [])]
        source = Source(address=TOPIC, capabilities=capabilities, filter=WANTS_1 if self.selective else None)
        source.expiry_policy = EXPIRY_LINK_DETACH
        return self.receiver(f"{SHARED}|{self.name}" if self.shares else f"{self.name}-in", source)

    def heard(self, event: Event) -> None:
        super().heard(event)
        if isinstance(event, LinkAttached) and not self.knows:
            self.knows = True
            self.subscribed.attached += 1

    def act(self) -> None:
        if not self.greedy:
            super().act()
            return
        if self.link.attached and self.link.credit < 100:
            self.link.flow(200)
        while self.held:
            self.settle_some()

    def choose(self) -> tuple[str, DeliveryState]:
        return ("accepted", ACCEPTED) if self.greedy else super().choose()

    def gone(self) -> None:
        super().gone()
        self.subscribed.links -= 1
        if self.knows:
            self.subscribed.attached -= 1
        if not self.subscribed.attached:
            self.world.oracle.unsubscribed(self.subscribed)


class LocalSubscriber(Subscriber):
    """Publishes too, and wants nothing of that (no-local)."""

    may_share = False

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.subscribed.excludes = name
        self.out: SenderLink = self.session.attach_sender(f"{name}-out", Source(), Target(address=TOPIC))
        self.sent = 0

    def container(self) -> str:
        return self.name

    def attach(self) -> ReceiverLink:
        wanted = filters("n = 1" if self.selective else None, no_local=True)
        source = Source(address=TOPIC, capabilities=[TOPIC_CAPABILITY], filter=wanted)
        source.expiry_policy = EXPIRY_LINK_DETACH
        return self.receiver(f"{self.name}-in", source)

    def act(self) -> None:
        if not self.greedy and self.out.attached and self.out.credit > 0 and self.world.random.random() < 0.3:
            fate, payload = new_message(self.world, TOPIC, self.name, None, 10)
            self.sent += 1
            self.out.send(payload, self.sent.to_bytes(4, "big"), False, context=fate)
        else:
            super().act()

    def answered(self, context: object, state: DeliveryState | None) -> None:
        assert isinstance(context, Fate)
        accepted = isinstance(state, Accepted)
        self.world.oracle.answered(context, Answer.ACCEPTED if accepted else Answer.REFUSED)

    def received(self, event: TransferReceived) -> None:
        id, _ = decode(event.payload)
        if self.world.oracle.sender_of(id) == self.name:
            raise Broken(f"message {id} came back to {self.name}, who has published it")
        super().received(event)
