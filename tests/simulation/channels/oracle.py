"""What must be true of messages that go from one queue manager to another, whatever fails.

The oracle hears what clients sent and were told, sees what lies on the queues in the end, and reads the
ledgers.
"""

from dataclasses import dataclass, field

from tests.simulation.oracle import Broken

Seen = tuple[str, str]
"""Queue manager and queue."""


@dataclass(eq=False)
class Sent:
    """One message that a client has put."""

    id: int
    sender: str
    at: str
    """The queue manager that it was put to."""
    address: str
    durable: bool
    returns: bool
    """It asks to be returned where it can't be delivered."""
    accepted: bool | None = None
    """None: its sender doesn't know."""
    seen: list[Seen] = field(default_factory=list)
    perhaps_taken: bool = False
    """Somebody has accepted it, and was cut off from the answer."""

    def stream(self) -> tuple[str, str, bool]:
        """In which order is promised."""
        return self.sender, self.address, self.durable


class Oracle:
    """Judges one run."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.newest: dict[tuple[Seen, tuple[str, str, bool]], int] = {}
        self.checks = 0

    def puts(self, sender: str, at: str, address: str, durable: bool, returns: bool) -> Sent:
        """A client is about to put a message."""
        message = Sent(len(self.sent) + 1, sender, at, address, durable, returns)
        self.sent[message.id] = message
        return message

    def taken(self, id: int, node: str, queue: str, durable: bool) -> None:
        """A message has been taken from a queue, for good."""
        self.checks += 1
        message = self.sent[id]
        message.seen.append((node, queue))
        if message.accepted is False:
            raise Broken(f"message {id} is on {queue} of {node} though it was refused")
        if durable != message.durable:
            raise Broken(f"message {id} was sent with durable={message.durable} and arrived otherwise")
        if len(message.seen) > 1:
            raise Broken(f"message {id} to {message.address} came twice: {message.seen}")
        self._check_order(message, (node, queue))

    def perhaps_taken(self, id: int) -> None:
        """Somebody has accepted it, and won't hear whether that holds."""
        self.sent[id].perhaps_taken = True

    def _check_order(self, message: Sent, place: Seen) -> None:
        newest = self.newest.get((place, message.stream()), 0)
        if message.id < newest:
            raise Broken(f"message {message.id} is on {place} behind message {newest} of its stream")
        self.newest[place, message.stream()] = message.id

    def final(self, expected: dict[str, Seen], lost: set[int], calm: bool) -> None:
        """Everything has come to rest and was taken: ``expected`` says where messages to an address go;
        ``lost`` are those that the ledgers name as lost, which there are only if lines or machines have
        failed (not ``calm``).
        """
        if calm and lost:
            raise Broken(f"nothing has failed, and these are said to be lost: {sorted(lost)}")
        for message in self.sent.values():
            self.checks += 1
            if not message.seen:
                self._check_absent(message, lost)
            elif message.id in lost:
                raise Broken(f"message {message.id} is said to be lost, and was on {message.seen[0]}")
            elif message.address in expected and message.seen[0] != expected[message.address]:
                raise Broken(f"message {message.id} to {message.address} went to {message.seen[0]}")

    def _check_absent(self, message: Sent, lost: set[int]) -> None:
        if not message.accepted or message.perhaps_taken:
            return
        if message.durable:
            raise Broken(f"message {message.id} to {message.address} is nowhere")
        if message.id not in lost:
            raise Broken(f"message {message.id} is nowhere, and no ledger says that it was lost")
