"""Who puts and who takes: producers and consumers, as the ledger names them."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from postroom.manager.kernel.effects import Sink
from postroom.manager.kernel.options import ConsumerOptions
from postroom.manager.kernel.quota_pool import PoolWaiter

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination
    from postroom.manager.kernel.entry import Entry


class Receiver:
    """Who a consumer takes for, if that isn't a link that settles what it gets: a channel, in batches."""

    def take(self, entry: "Entry") -> None:
        """``entry`` is in no order any more: hold it."""
        raise NotImplementedError


class BulkReceiver(Receiver):
    """Who a consumer takes for, if that is told by the ledger what it gets: a Spark subscription."""

    def room(self) -> i64:
        """So many entries more it may be given now."""
        raise NotImplementedError

    def take_next(self, alone: bool) -> bool:
        """Hold the next that is available: whole runs where nobody else wants any (``alone``). False if there
        is nothing."""
        raise NotImplementedError


@final
class Producer:
    """Someone who puts. It is written to the ledger before its first message."""

    def __init__(self, id: i64, name: str, container: str, user: str, send_timeout_us: i64) -> None:
        self.id: i64 = id
        self.channel = ""
        """The channel that puts, the next two its partner; else ""."""
        self.queue_manager = ""
        self.ledger = ""
        """The partner's ledger id, in hex."""
        self.receives = False
        """Whether what it puts now came through the channel; then the next two count."""
        self.origin_serial: i64 = 0
        """The message's serial in the sender's ledger; 0 unknown."""
        self.sequence: i64 = 0
        """Its number in the channel's sequence; 0 outside of batches."""
        self.adverse = False
        """Whether it is the queue manager itself."""
        self.name = name
        self.container = container
        self.user = user
        self.recorded = False
        self.closed = False
        self.send_timeout_us: i64 = send_timeout_us
        """How long a send waits for room; 0 not at all."""
        self.waiting: list[PoolWaiter] | None = None
        """Its blocked sends in order; None while there are none."""
        self.blocked_bytes: i64 = 0
        self.queue: Destination | None = None
        """The queue or topic that its link is attached to; None: each message says where it goes."""
        self.sink: Sink | None = None
        """Its link, where it has such a queue."""


class QueueReader:
    """Someone who is sent what a queue has, as far as it has credit: a consumer, which takes it, or a
    browser."""

    def __init__(self, id: i64, queue: "Destination", sink: Sink, options: ConsumerOptions) -> None:
        self.id: i64 = id
        self.queue = queue
        self.sink = sink
        self.options = options
        self.credit: i64 = 0
        self.assigned: i64 = 0
        """Entries ever given to it; rises as its credit is counted down."""
        self.drain = False
        self.closed = False
        self.suspended = False
        """Its link is gone and may come back; never of a browser."""


@final
class Consumer(QueueReader):
    """Someone who takes from one queue. It is written to the ledger, as a holder, before its first
    delivery."""

    def __init__(self, id: i64, queue: "Destination", sink: Sink, options: ConsumerOptions) -> None:
        super().__init__(id, queue, sink, options)
        self.presettled = options.presettled
        self.redelivery_delay_us: i64 = options.redelivery_delay_ms * 1000
        self.held: set[Entry] = set()
        self.recorded = False
        self.suspended_until_us: i64 = 0
        self.active = True
        """False while it stands by behind the active consumer of an exclusive queue."""
        self.ready = False
        """In its queue's ring of consumers that can take a delivery now."""
        self.backoff_us: i64 = 0
        """No delivery before this time; 0 none."""
        self.excluded: i64 = 0
        """Entries that may not come here again."""
        self.selector_cursor: object | None = None
        """Where its selector is, if it has one; shared with others that say the same (`selector_cursor`)."""
        self.selector_cursor_id: i64 = 0
        """0: it has none."""
        self.receiver: Receiver | None = None
        self.bulk: BulkReceiver | None = None
        self.waits = False
        """When it was last looked for something, bodies had to be read first, or the turn was over."""
