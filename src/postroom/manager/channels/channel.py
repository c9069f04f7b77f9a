"""Message channels as the queue manager keeps them: both ends, their batches, and what survives a restart.

What leaves by a channel is held by a *batch*, a holder of kind CHANNEL_BATCH with a name of its own (the
LUWID, logical unit of work id), until the partner says that it has it; then one decision ends all of it as
forwarded. The partner puts the same batch in a transaction and commits that with the LUWID in one block. So
after any failure the two ends need to compare no more than the last LUWID: a batch that the partner doesn't
know goes back to its places, one that it knows has arrived. What leaves outside of batches (NPMSPEED(FAST))
the channel's consumer holds until the partner has taken it.
"""

import json
from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING, Final, cast, final

from isal.isal_zlib import crc32
from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.model.channel import ChannelDefinition

if TYPE_CHECKING:
    from postroom.manager.kernel.consumer import Consumer, Producer
    from postroom.manager.kernel.entry import Entry
    from postroom.manager.kernel.transaction import Transaction

STATE: Final = "state"
STOPPED: Final = "stopped"
"""In a channel's status: while its state is this one, nobody gets anything from its transmission queue."""


@final
class Batch:
    """Messages on their way, until the partner has confirmed them all; as a holder it has ``id``."""

    def __init__(self, id: i64, luwid: bytes) -> None:
        self.id: i64 = id
        self.luwid: Final = luwid
        self.entries: list[Entry] = []
        """While it isn't decided."""
        self.count: i64 = 0
        """Messages in it; those that travel outside of batches are in none."""
        self.last_sequence: i64 = 0
        """The number of its last message, known when it is ended; 0 after a restart."""
        self.recorded = False


@final
@dataclass(frozen=True)
class ChannelSync:
    """What one end of a channel knows of its work, to be compared with the other's."""

    last_luwid: bytes
    """Of the last batch that is decided; b"" none."""
    last_sequence: int
    """Number of the last message of that batch."""
    in_doubt: Batch | None
    """Of a sending end: of which it isn't known whether the partner has it."""
    reset_sequence: int
    """Of a sending end: the number of the next message by a RESET that the partner is to be told of; 0
    none."""


@final
class Partner:
    """Of a receiving channel: a queue manager that has sent by it, and how far that has come."""

    def __init__(self, id: i64, queue_manager: str, ledger: str) -> None:
        self.id: i64 = id
        self.queue_manager = queue_manager
        self.ledger: Final = ledger
        """The id of its ledger, in hex: what makes it the same one."""
        self.luwid = b""
        self.sequence: i64 = 0
        self.committed: i64 = 0
        """Position of the record that says so of the last batch."""
        self.end: ReceivingEnd | None = None
        """While it is connected."""

    def detail(self, channel: str) -> bytes:
        """As the ledger is told."""
        record: dict[str, object] = {
            "channel": channel,
            "queue_manager": self.queue_manager,
            "ledger": self.ledger,
            "luwid": self.luwid.hex(),
            "sequence": int(self.sequence),
        }
        return json.dumps(record).encode()


@final
class Channel:
    """One channel of this queue manager."""

    def __init__(self, id: i64, definition: ChannelDefinition) -> None:
        self.id: i64 = id
        self.definition = definition
        self.luwid = b""
        """Of the last batch that was confirmed or resolved; sending ends only."""
        self.sequence: i64 = 0
        """Number of the last message; of a receiving channel that with which a new partner begins."""
        self.reset_sequence: i64 = 0
        """By a RESET after which no batch has been confirmed; the partner is told at each start."""
        self.status: dict[str, object] = {}
        """What must survive of its state; whoever runs the channel says what that is."""
        self.batches: list[Batch] = []
        """Those that hold something, the oldest first."""
        self.sending: SendingEnd | None = None
        """While it sends."""
        self.partners: dict[str, Partner] = {}
        """Of a receiving channel, by their ledgers."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def stopped(self) -> bool:
        """Whether its transmission queue gives nothing out."""
        return self.definition.sending and self.status.get(STATE) == STOPPED

    @property
    def running(self) -> bool:
        """Whether one of its ends is open."""
        return self.sending is not None or any(one.end is not None for one in self.partners.values())

    def new_batch(self, id: i64, now_us: i64) -> Batch:
        """A batch under a name that no other one has: a time, the holder's id, the channel's name."""
        return Batch(id, pack(">QII", int(now_us), int(id), crc32(self.name.encode())))

    def detail(self) -> bytes:
        """Its state as the ledger is told."""
        record: dict[str, object] = {"luwid": self.luwid.hex(), "sequence": int(self.sequence)}
        if self.reset_sequence:
            record["reset_sequence"] = int(self.reset_sequence)
        if self.status:
            record["status"] = self.status
        return json.dumps(record).encode()


@final
class SendingEnd:
    """A channel that sends: the consumer of its transmission queue, and the batch that is being filled."""

    def __init__(self, channel: Channel, consumer: "Consumer", batch: Batch) -> None:
        self.channel: Final = channel
        self.consumer: Final = consumer
        self.fast = False
        """Whether non-persistent messages travel outside of batches; said before the first credit."""
        self.batch = batch
        """What is taken now belongs to it."""
        self.batch_size: i64 = 0
        """When so many messages have been taken since a batch began, fast ones too, the next one begins by
        itself; 0: only when this one is ended. Said before the first credit."""
        self.seen: i64 = 0
        """Messages that have been, where that counts."""
        self.full: list[Batch] = []
        """Batches that have begun and not been ended, before the one that is being filled; oldest first."""
        self.in_doubt: list[Batch] = []
        """Those before it whose confirmations are waited for, the oldest first."""
        self.closed = False

    @property
    def oldest_in_doubt(self) -> Batch | None:
        """The one that is confirmed next."""
        return self.in_doubt[0] if self.in_doubt else None


@final
class Caller:
    """Who has called a channel that receives."""

    def __init__(self, user: str = "", roles: tuple[str, ...] = ()) -> None:
        self.user: Final = user
        """"" the queue manager itself."""
        self.roles: Final = roles
        """Those of the token that the user has signed in with."""


NOBODY_ELSE: Final = Caller()


@final
class ReceivingEnd:
    """A channel that receives from one partner: its producer, and the batch as a transaction."""

    def __init__(
        self,
        channel: Channel,
        partner: Partner,
        producer: "Producer",
        transaction: "Transaction",
        roles: tuple[str, ...],
    ) -> None:
        self.channel: Final = channel
        self.partner: Final = partner
        self.producer: Final = producer
        self.roles: Final = roles
        """Those that a token gives the producer's user."""
        self.transaction = transaction
        """The batch that is being received."""
        self.closed = False

    @property
    def last_luwid(self) -> bytes:
        """Of the last batch that was committed; b"" none."""
        return self.partner.luwid

    @property
    def last_sequence(self) -> int:
        """Number of the last message that was committed."""
        return int(self.partner.sequence)


@final
class Channels:
    """Those of a queue manager."""

    def __init__(self) -> None:
        self.by_name: dict[str, Channel] = {}
        self.armed: set[str] = set()
        """Transmission queues of which a channel wants to hear when something can be taken from them."""
        self.triggered: list[str] = []
        """Those of them where it is so."""


def channels_of(core: Core) -> Channels:
    """Those of a queue manager."""
    return cast(Channels, core.state(Channels))
