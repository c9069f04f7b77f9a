"""What a turn wants done outside: answers, deliveries, reads of bodies.

The queue manager only collects effects. The server takes them with ``QueueManager.take_effects`` when it
takes the turn's block, and carries them out once that block is durable: nothing is answered or delivered
before. Within one `Effects` the order is: accepted, rejected, settled,
unblocked, deliveries, drained, replies.
``fetches`` and ``id_reads`` are carried out at once, since they read only what is already durable, and so is
``provisional``, which promises nothing that the disk would have to keep.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from postroom.manager.kernel.consumer import QueueReader
    from postroom.manager.kernel.entry import Entry

PRESETTLED: Final = -1
"""The token of a put or an outcome that wants no answer."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Where answers go: the server derives its links from it; the queue manager looks at nothing in it."""

    def __init__(self) -> None:
        self.open_accepted: TokenRange | None = None
        """The run of accepted tokens that this turn may still grow; the queue manager's."""
        self.open_settled: TokenRange | None = None
        self.blocked: i64 = 0
        """Sends of this link that wait for room; it gets no credit meanwhile."""


@final
class TokenRange:
    """Consecutive tokens (AMQP delivery ids) of one sink that get the same answer."""

    __slots__ = ("first", "last", "sink")

    def __init__(self, sink: Sink, first: i64, last: i64) -> None:
        self.sink = sink
        self.first: i64 = first
        self.last: i64 = last


@final
class Rejected:
    """A put was refused: ``condition`` is an AMQP error symbol, ``description`` a sentence for people."""

    __slots__ = ("condition", "description", "sink", "token")

    def __init__(self, sink: Sink, token: i64, condition: str, description: str) -> None:
        self.sink = sink
        self.token: i64 = token
        self.condition = condition
        self.description = description


@final
class Delivery:
    """Send this entry to this consumer.

    Skip it if ``consumer.closed`` by now: the entry has gone back already. ``body`` is what was stored (the
    sections as received without header and delivery-annotations); ``annotations`` are to be merged into its
    message annotations; the rest of a fresh header is read from ``entry``. ``copied``: a browser's, which
    nobody settles. ``first``: nobody has held the entry before.
    """

    __slots__ = ("annotations", "body", "consumer", "copied", "delivery_count", "entry", "first")

    def __init__(
        self,
        consumer: "QueueReader",
        entry: "Entry",
        body: bytes,
        delivery_count: i64,
        annotations: dict[str, object] | None,
        copied: bool,
        first: bool,
    ) -> None:
        self.consumer = consumer
        self.entry = entry
        self.body = body
        self.delivery_count: i64 = delivery_count
        self.annotations = annotations
        self.copied = copied
        self.first = first


@final
class Fetch:
    """Read these bodies and answer with ``QueueManager.fetched(fetch.entries, bodies)``.

    ``wanted`` are (body_serial, body_offset, body_len), one for each entry, as ``Ledger.read_bodies`` takes
    them; ``size_bytes`` is the sum of their lengths.
    """

    __slots__ = ("entries", "size_bytes", "wanted")

    def __init__(self, entries: "list[Entry]", wanted: list[tuple[int, int, int]]) -> None:
        self.entries = entries
        self.wanted = wanted
        self.size_bytes: i64 = 0
        for entry in entries:
            self.size_bytes += entry.body_len


@final
class IdRead:
    """Read ids off the loop and answer with ``QueueManager.ids_read(read, found)``.

    ``serials`` are asked of ``Ledger.read_ids``; or, where it is not None, ``all_serials`` (an array of u64)
    of ``Ledger.hash_ids``.
    """

    __slots__ = ("all_serials", "asker", "serials")

    def __init__(self, asker: object, serials: list[int], all_serials: object | None) -> None:
        self.asker = asker
        self.serials = serials
        self.all_serials = all_serials


@mypyc_attr(allow_interpreted_subclasses=True)
class Asker:
    """Who gets a `Reply`: the server derives from it."""

    def answered(self, payload: object, now_us: i64) -> None:
        """The answer, or the `ManagerError` that it is instead."""
        raise NotImplementedError


@final
class Reply:
    """An answer of another kind (to a management request): ``payload`` for ``target``."""

    __slots__ = ("payload", "target")

    def __init__(self, target: Asker, payload: object) -> None:
        self.target = target
        self.payload = payload


@final
@dataclass(eq=False)
class Detach:
    """The queue manager ends the consumer or producer of this sink (queue deleted, …); what a consumer held
    has gone back already."""

    sink: Sink
    condition: str
    description: str


@final
@dataclass(eq=False)
class Crossed:
    """A queue has passed a threshold: ``what`` is "messages" or "bytes", ``value`` what there is now."""

    queue: str
    what: str
    armed: bool
    value: i64
    threshold: i64


@final
@dataclass(eq=False)
class Warned:
    """A message for ``queue`` was accepted, but not all that it asks for is done: ``text`` says what not."""

    queue: str
    text: str


@final
@dataclass(eq=False)
class Alarm:
    """Somebody has lost what they had: ``event`` is the log's name for it, ``name`` whose it was."""

    event: str
    name: str
    text: str


@final
class Discarded:
    """Messages of ``queue`` that a turn has ended and that are nowhere any more, though nobody has consumed
    them: how many, and why the last."""

    __slots__ = ("count", "queue", "reason")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.count: i64 = 0
        self.reason = ""


@final
class Effects:
    """Everything one turn wants done."""

    def __init__(self) -> None:
        self.accepted: list[TokenRange] = []
        """Puts that are stored."""
        self.provisional: list[TokenRange] = []
        """Puts that a transaction has taken: accepted if it is committed. Not waiting for durability."""
        self.rejected: list[Rejected] = []
        self.settled: list[TokenRange] = []
        """Outcomes of consumers that are applied (answer for receiver-settles-second)."""
        self.deliveries: list[Delivery] = []
        self.drained: list[QueueReader] = []
        """Their credit was used up by drain, after the deliveries above."""
        self.detached: list[Detach] = []
        self.replies: list[Reply] = []
        self.unblocked: list[Sink] = []
        """None of their sends waits any more; of a transaction's, whoever wants to discharge it."""
        self.crossed: list[Crossed] = []
        """Thresholds, for the log."""
        self.warned: list[Warned] = []
        """For the log, too; likewise the next two."""
        self.alarms: list[Alarm] = []
        self.discarded: dict[str, Discarded] = {}
        """By the queue's name."""
        self.fetches: list[Fetch] = []
        """Not waiting for durability."""
        self.id_reads: list[IdRead] = []
        """Likewise."""

    def empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (
            self.accepted
            or self.provisional
            or self.deliveries
            or self.settled
            or self.rejected
            or self.drained
            or self.detached
            or self.replies
            or self.unblocked
            or self.crossed
            or self.warned
            or self.alarms
            or self.discarded
            or self.fetches
            or self.id_reads
        )

    def discard(self, queue: str, condition: str, description: str) -> None:
        """A message of ``queue`` has ended, and nobody has it: that is for the log."""
        discarded = self.discarded.get(queue)
        if discarded is None:
            discarded = self.discarded[queue] = Discarded(queue)
        discarded.count += 1
        discarded.reason = f"{condition}: {description}" if description else condition

    def accept(self, sink: Sink, token: i64) -> None:
        """``token`` of ``sink`` is accepted; consecutive ones become one range."""
        run = sink.open_accepted
        if run is not None and run.last + 1 == token:
            run.last = token
            return
        run = TokenRange(sink, token, token)
        sink.open_accepted = run
        self.accepted.append(run)

    def accept_provisionally(self, sink: Sink, token: i64) -> None:
        """A transaction has taken ``token`` of ``sink``; consecutive ones become one range."""
        if self.provisional:
            run = self.provisional[-1]
            if run.sink is sink and run.last + 1 == token:
                run.last = token
                return
        self.provisional.append(TokenRange(sink, token, token))

    def settle(self, sink: Sink, token: i64) -> None:
        """The outcome that ``sink`` gave for ``token`` is applied; consecutive ones become one range."""
        run = sink.open_settled
        if run is not None and run.last + 1 == token:
            run.last = token
            return
        run = TokenRange(sink, token, token)
        sink.open_settled = run
        self.settled.append(run)

    def close(self) -> None:
        """The turn is over: its ranges grow no more."""
        for run in self.accepted:
            run.sink.open_accepted = None
        for run in self.settled:
            run.sink.open_settled = None
