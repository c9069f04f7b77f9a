"""Actors at the management node: they pause queues, and delete, move, replay and import messages."""

from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Message, Properties, Value, decode_message
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.actors import Actor, Surroundings, decode, new_message
from tests.simulation.oracle import REMADE, Answer, Broken, Fate
from tests.simulation.swarm import DEAD_LETTERS

NODE = "$management"
SWITCHES = ("production", "insertion", "consumption")
QUEUE_TYPE = "postroom.queue"
MESSAGE_TYPE = "postroom.message"
NO_MATCH = "postroom:no-matching-message"
OK = 200
LATELY = 40
"""Of so many messages, the newest, one is chosen."""


class Manager(Actor):
    """Sends one request after another about one queue."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.queue = world.random.choice(world.swarm.plain_queues())
        self.requests: SenderLink = self.session.attach_sender(f"{name}-ask", Source(), Target(address=NODE))
        self.replies: ReceiverLink = self.session.attach_receiver(
            f"{name}-told", Source(address=NODE), Target()
        )
        self.request_count = 0
        self.waits = False
        """For an answer."""
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
        """Send the next request."""
        raise NotImplementedError

    def send_request(self, operation: str, kind: str, more: dict[str, object], body: object = None) -> None:
        self.request_count += 1
        self.waits = True
        message = Message(
            properties=Properties(message_id=f"{self.request_count}", reply_to=NODE),
            application_properties={"operation": operation, "type": kind, "name": self.queue, **more},
            body=Value(body),
        )
        self.requests.send(message.encode(), self.request_count.to_bytes(4, "big"), True)

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
            self.on_reply(reply)

    def on_reply(self, reply: Message) -> None:
        """The answer to the last request."""

    def gone(self) -> None:
        if self.waits:
            self.unanswered()

    def unanswered(self) -> None:
        """What was requested last may have been done."""


def parts_of(reply: Message) -> tuple[int, str, dict[str, object]]:
    """Status, condition and attributes of an answer."""
    properties = reply.application_properties or {}
    body = reply.body.value if isinstance(reply.body, Value) else None
    condition = properties.get("errorCondition") or ""
    return int(properties["statusCode"]), str(condition), body if isinstance(body, dict) else {}


def number(value: object) -> int:
    assert isinstance(value, int)
    return int(value)


class Pauser(Manager):
    """Pauses a queue and resumes it, one way or another."""

    def go_on(self) -> None:
        random = self.world.random
        operation = random.choice(("PAUSE", "RESUME"))
        self.send_request(operation, QUEUE_TYPE, {"switch": random.choice(SWITCHES)})


class Changer(Manager):
    """Deletes messages, or moves them to another queue, one by one."""

    fate: Fate | None = None
    deletes = True
    to = ""

    def go_on(self) -> None:
        random, oracle = self.world.random, self.world.oracle
        queues = self.world.swarm.plain_queues()
        fates = [fate for fate in list(oracle.fates.values())[-LATELY:] if fate.queue in queues]
        fates = [fate for fate in fates if not fate.changed_by]
        if not fates:
            return
        fate = random.choice(fates)
        self.queue = fate.queue
        self.to = "" if self.deletes else random.choice(queues)
        if self.to == fate.queue:
            return
        self.fate = fate
        oracle.about_to_change(fate, self.name, "deleted", self.to)
        wanted = {"message_id": f"{fate.id}"}
        if self.to:
            self.send_request("MOVE-MESSAGES", MESSAGE_TYPE, {}, {**wanted, "to": self.to})
        else:
            self.send_request("DELETE-MESSAGES", MESSAGE_TYPE, {}, wanted)

    def on_reply(self, reply: Message) -> None:
        status, _, body = parts_of(reply)
        count = number(body["count"]) if status == OK else 0
        assert self.fate is not None
        if count > 1:
            raise Broken(f"message {self.fate.id} is on {self.queue} {count} times")
        self.world.oracle.changed(self.fate, "deleted", self.to, count == 1)
        self.fate = None

    def unanswered(self) -> None:
        assert self.fate is not None
        self.world.oracle.change_unanswered(self.fate)


class Mover(Changer):
    deletes = False


class Replayer(Manager):
    """Sends all dead letters back to where they came from."""

    def go_on(self) -> None:
        if self.world.random.random() < 0.2:
            self.queue = DEAD_LETTERS
            self.send_request("REPLAY", MESSAGE_TYPE, {}, {})


class Purger(Manager):
    """Ends everything that waits on a queue, once in a while."""

    def go_on(self) -> None:
        if self.world.random.random() < 0.1:
            self.world.oracle.purged(self.queue)
            self.send_request("PURGE", QUEUE_TYPE, {})

    def on_reply(self, reply: Message) -> None:
        self.unanswered()

    def unanswered(self) -> None:
        """What came after the question may have been there before the deed."""
        self.world.oracle.purged(self.queue)


class Remaker(Manager):
    """Deletes a queue, whoever uses it and whatever is on it, and creates it anew."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.queue = REMADE
        self.deletes = False

    def go_on(self) -> None:
        if self.world.random.random() >= 0.3:
            return
        self.deletes = not self.deletes
        if self.deletes:
            self.world.oracle.purged(self.queue)
            self.send_request("DELETE", QUEUE_TYPE, {"force": True})
        else:
            self.send_request("CREATE", QUEUE_TYPE, {}, {"dead_letter_queue": DEAD_LETTERS})

    def on_reply(self, reply: Message) -> None:
        status, condition, _ = parts_of(reply)
        if status not in (OK, 201, 204, 404, 409):
            raise Broken(f"{self.queue} was to be deleted or made, and the answer is {status} {condition}")
        self.unanswered()

    def unanswered(self) -> None:
        """What came after the question may have been there before the deed."""
        self.world.oracle.purged(self.queue)


class Waiter(Manager):
    """Waits for messages at the message store, and listens."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.position = -1
        self.takes = False

    def go_on(self) -> None:
        random = self.world.random
        self.takes = random.random() < 0.6
        wait: dict[str, object] = {"timeout_ms": random.choice((1, 30, 1000))}
        if self.takes:
            self.world.oracle.perturbed(self.queue)
            self.world.oracle.presettled[self.queue] += 1
            self.send_request("WAIT", MESSAGE_TYPE, {}, wait)
        else:
            self.send_request("LISTEN", MESSAGE_TYPE, {}, {**wait, "position": self.position})

    def on_reply(self, reply: Message) -> None:
        status, condition, body = parts_of(reply)
        self.world.oracle.presettled[self.queue] -= self.takes
        if status != OK:
            if condition not in (NO_MATCH, "amqp:illegal-state"):
                raise Broken(f"a wait on {self.queue} was answered with {status} {condition}")
            return
        if not self.takes:
            after = body["after"]
            assert isinstance(after, list)
            self.position = number(after[0])
            return
        rows = body["messages"]
        assert isinstance(rows, list)
        (row,) = rows
        id, _ = decode(row["message"])
        oracle = self.world.oracle
        fate = oracle.taken(id, self.queue, self.world.now_us, self.name)
        oracle.gave(fate, "accepted")
        oracle.settled(fate, "accepted")

    def unanswered(self) -> None:
        """Something may have been taken, nobody knows what."""
        if self.takes:
            self.world.oracle.presettled[self.queue] -= 1
            self.world.oracle.purged(self.queue)


class Importer(Manager):
    """Brings messages from elsewhere."""

    fate: Fate | None = None

    def go_on(self) -> None:
        self.fate, message = new_message(self.world, self.queue, self.name, None, 10)
        self.send_request("IMPORT-MESSAGES", MESSAGE_TYPE, {}, {"messages": [message], "overrides": True})

    def on_reply(self, reply: Message) -> None:
        status, _, body = parts_of(reply)
        if status == OK and (body["created"], body["replaced"]) != (1, 0):
            raise Broken(f"a new message was imported, and the answer says {body}")
        assert self.fate is not None
        self.world.oracle.answered(self.fate, Answer.ACCEPTED if status == OK else Answer.REFUSED)
