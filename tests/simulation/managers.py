"""Actors that ask the management node: they pause and resume queues, and lock messages of the store."""

from postroom.amqp.events import Event, TransferReceived
from postroom.amqp.outcomes import ACCEPTED
from postroom.amqp.performatives import Source, Target
from postroom.amqp.receiver import ReceiverLink
from postroom.amqp.sections import Message, Properties, Value, decode_message
from postroom.amqp.sender import SenderLink
from postroom.server.binding import ConnectionBinding
from tests.simulation.actors import Actor, Surroundings, decode
from tests.simulation.oracle import Fate

NODE = "$management"
SWITCHES = ("production", "insertion", "consumption")
LEASE_US = 300_000_000
"""How long locks hold (the queue manager's default)."""


class Manager(Actor):
    """Asks one thing after another about one queue."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.queue = world.random.choice([queue for queue in world.sources if queue in world.queues])
        self.requests: SenderLink = self.session.attach_sender(f"{name}-ask", Source(), Target(address=NODE))
        self.replies: ReceiverLink = self.session.attach_receiver(
            f"{name}-told", Source(address=NODE), Target()
        )
        self.asked = 0
        self.waits = False
        self.answer = bytearray()
        """What has come of the next answer, which may take several frames."""

    def act(self) -> None:
        if not self.replies.attached:
            return
        if self.replies.credit < 10:
            self.replies.flow(20)
        if self.requests.attached and self.requests.credit > 0 and not self.waits:
            self.go_on()

    def go_on(self) -> None:
        """Ask the next thing."""
        raise NotImplementedError

    def ask(self, operation: str, kind: str, said: dict[str, object], body: object = None) -> None:
        self.asked += 1
        self.waits = True
        message = Message(
            properties=Properties(message_id=f"{self.asked}", reply_to=NODE),
            application_properties={"operation": operation, "type": kind, "name": self.queue, **said},
            body=Value(body),
        )
        self.requests.send(message.encode(), self.asked.to_bytes(4, "big"), True)

    def heard(self, event: Event) -> None:
        super().heard(event)
        if isinstance(event, TransferReceived):
            self.answer += event.payload
            if event.more:
                return
            self.waits = False
            reply = decode_message(bytes(self.answer))
            self.answer.clear()
            if not event.settled:
                self.replies.settle(event.delivery_id, event.delivery_id, ACCEPTED, settled=True)
            self.told(reply)

    def told(self, reply: Message) -> None:
        """The answer to what was asked last."""


class Pauser(Manager):
    """Pauses a queue and resumes it, one way or another."""

    def go_on(self) -> None:
        random = self.world.random
        operation = random.choice(("PAUSE", "RESUME"))
        self.ask(operation, "postroom.queue", {"switch": random.choice(SWITCHES)})


class Locker(Manager):
    """Locks what it finds on a queue, and lets it go in its own time."""

    lock_id: object = None
    locked: list[Fate]

    def go_on(self) -> None:
        if self.lock_id is None:
            self.locked = []
            self.ask("BROWSE-AND-LOCK", "postroom.message", {}, {"priority": 4})
        elif self.world.random.random() < 0.3:
            for fate in self.locked:
                fate.locked_until_us = 0
                fate.order_perturbed = True
            self.ask("UNLOCK", "postroom.message", {}, {"lock_id": self.lock_id})
            self.lock_id = None

    def told(self, reply: Message) -> None:
        body = reply.body.value if isinstance(reply.body, Value) else None
        if not isinstance(body, dict) or "lock_id" not in body:
            return
        self.lock_id = body["lock_id"]
        for row in body["messages"]:
            id, _ = decode(bytes(row["message"]))
            fate = self.world.oracle.fate_of(id, self.queue)
            assert fate is not None, f"message {id} was locked and never sent"
            fate.order_perturbed = True
            fate.locked_until_us = self.world.now_us + LEASE_US
            self.locked.append(fate)
