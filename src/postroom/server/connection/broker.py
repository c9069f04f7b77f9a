"""The broker without its sockets: connections' bindings, the queue manager and the ledger, tied by group
commit.

Pure but for the ledger's own writer: time comes in as an argument, bytes go in and out of
`ConnectionBinding`, reads of bodies and checks of passwords are asked for and answered later. The service
puts it on an event loop; the simulation drives it with a virtual clock.

The rule that everything here serves: an effect (answer, delivery, reply) leaves only when every record that
was written before it is durable. Each turn's effects are kept with the position they wait for.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import i64

from postroom.ledger.errors import BodyUnreadable, LedgerCorrupt
from postroom.ledger.retention.kept_history import NEVER
from postroom.ledger.storage.body_requests import Body
from postroom.manager.channels.channel import channels_of
from postroom.manager.kernel.effects import Effects, Fetch, IdRead
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.turn_state import NO_POSITION
from postroom.manager.manager import QueueManager
from postroom.manager.spark.subscription import spark_subscriptions_of
from postroom.manager.undeliverable.unreadable_bodies import UNREADABLE_DELAY_US
from postroom.server.access.access import Access
from postroom.server.access.sign_in_policy import Arrival
from postroom.server.access.traffic import Traffic
from postroom.server.access.verifier_file import VerifierStore
from postroom.server.alarms import BODIES_UNREADABLE
from postroom.server.channels.dead_letter_handlers import DeadLetterHandlers
from postroom.server.channels.instance import PartnerRuns
from postroom.server.channels.outbound_connection import Outward
from postroom.server.channels.supervisor import Channels
from postroom.server.configuration.config import Config
from postroom.server.connection.binding import ConnectionBinding
from postroom.server.connection.discard_log import DiscardLog
from postroom.server.connection.durable_effects import release, release_provisional
from postroom.server.connection.sign_in import SignIns
from postroom.server.connection.token_sign_in import TokenSignIns
from postroom.server.kernel.broker_state import BrokerState, LedgerFace
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.kernel.members import Members
from postroom.server.links.dynamic_nodes import DynamicNodes
from postroom.server.links.flow_control import Pacing
from postroom.server.links.registry import Registry
from postroom.server.logs import log
from postroom.server.management import Management

PROVISIONAL_BYTES: Final = 1 << 20
"""Work of open transactions that is collected in memory before it is written without anybody waiting."""

After = tuple[ConnectionState, Callable[[int], None]]


class Waiting:
    """What one turn wants done, and the position that must be durable before it is."""

    def __init__(self, position: int, effects: Effects, after: list[After]) -> None:
        self.position: Final = position
        self.effects: Final = effects
        self.after: Final = after


class Broker(BrokerState):
    """One queue manager with its ledger and its connections."""

    def __init__(
        self,
        config: Config,
        ledger: LedgerFace,
        manager: QueueManager,
        new_name: Callable[[], str],
        verifiers: VerifierStore | None = None,
    ) -> None:
        """``new_name`` gives a name that no one else has or guesses, for dynamic nodes; ``verifiers``: of the
        users that the ledger has, in memory only where it is left out."""
        super().__init__(config, ledger, manager, new_name)
        self.access: Final = Access(self, verifiers)
        self.keep(self.access)
        self.registry: Final = Registry(config.limits)
        self.dynamic: Final = DynamicNodes(manager, new_name, self.links_of, self.access.owners)
        self.pacing: Final = Pacing()
        self.traffic: Final = Traffic(self)
        self.keep(self.traffic)
        self.sign_ins: Final = SignIns(self.access.users(), config.sign_in, config.limits.open_timeout_ms)
        self.tokens: Final = TokenSignIns(config.oauth)
        self.keep(self.tokens)
        self.sign_ins.take_tokens(config.oauth is not None)
        self.access.listeners.append(self.sign_ins.replace_users)
        self.channels: Final = Channels(self)
        self.members: Final = Members()
        self.keep(self.members)
        self.management: Final = Management(self)
        self.dead_letters: Final = DeadLetterHandlers(self)
        self.keep(self.registry)
        self.keep(self.dynamic)
        self.keep(self.pacing)
        self.keep(self.sign_ins)
        self.keep(self.channels)
        self.keep(self.channels, PartnerRuns)
        self.keep(self.management)
        self.keep(self.dead_letters)
        self.fetches: Final[list[Fetch]] = []
        """Bodies to be read; answer each with `fetched`."""
        self.id_reads: Final[list[IdRead]] = []
        """Ids to be read; answer each with `ids_read`."""
        self.stopping = False
        self.discards: Final = DiscardLog()
        self._unreadable_until_us = 0
        """When nothing will have been unreadable for long enough; 0 nothing is."""
        self._space_is_short = False
        self.wants_turn = False
        """There is more to release that needs no wait: have a turn soon."""
        self._waiting: Final[deque[Waiting]] = deque()
        self._unread_from = -1
        """As the ledger was told."""

    def connect(
        self,
        remote: str,
        mechanisms: list[str],
        monotonic_us: int,
        now_us: int,
        arrival: Arrival | None = None,
    ) -> ConnectionBinding | None:
        """A binding for a connection from ``remote``, where ``arrival`` says more; None when there are too
        many or the broker is stopping.
        """
        listener = "" if arrival is None else arrival.listen
        too_many = len(self.connections) >= self.config.limits.max_connections
        if self.stopping or too_many or not self.traffic.accepts(listener):
            log(logging.WARNING, "connection-refused", remote=remote, connections=len(self.connections))
            return None
        binding = ConnectionBinding(self, remote, mechanisms, monotonic_us, now_us, None, arrival)
        binding.listener = listener
        self.traffic.accepted(binding)
        self.connections[binding] = None
        self.connections_total += 1
        self.connections_high = max(self.connections_high, len(self.connections))
        self.touched[binding] = None
        return binding

    def connect_outward(
        self, outward: Outward, remote: str, monotonic_us: int, now_us: int
    ) -> ConnectionBinding | None:
        """The binding for a connection that the broker has opened itself; None where nobody wants it any
        more.
        """
        if self.stopping or outward.over:
            return None
        binding = ConnectionBinding(self, remote, [], monotonic_us, now_us, outward)
        outward.binding = binding
        self.connections[binding] = None
        self.touched[binding] = None
        return binding

    def end_turn(self, now_us: int) -> None:
        """The turn's records go to the ledger, or wait for the block in flight; effects that can leave do."""
        self._tend(now_us)
        self.channels.end_turn(now_us)
        self._commit()
        if channels_of(self.manager.core).triggered:
            self.channels.triggered(now_us)
        self.wants_turn = False
        if self._release(now_us):
            self._commit()  # what the released effects have made: more credit, more deliveries
            self.wants_turn = bool(self._waiting) and self._waiting[0].position <= self.durable_through

    def completed(self, now_us: int) -> None:
        """The ledger has said that its block is durable: send the next one off, release what waited.

        Raises the ledger's `LedgerFailed` when the block could not be written; nothing is released then.
        """
        self.durable_through = self.ledger.complete()
        if self.ledger.in_flight:
            return  # called too early
        self.in_flight_bytes = 0
        self.manager.durable(self.durable_through, now_us)
        if 0 < self.next_deadline_us() <= now_us:
            self.on_time(now_us)  # what the bounds of the last block have left undone, for instance
        self.end_turn(now_us)

    def on_time(self, now_us: int) -> None:
        """What is due by now: the queue manager's timers, suspended links that run out."""
        self.manager.on_time(now_us)
        self.registry.on_time(now_us)
        self.pacing.on_time(now_us)
        self.dynamic.on_time(now_us)
        self.dead_letters.on_time(now_us)
        self.channels.on_time(now_us)
        self.discards.on_time(now_us)
        self.access.acts.on_time(now_us)
        self.sign_ins.failures.on_time(now_us)
        self.traffic.on_time(now_us)
        self.tokens.on_time(now_us)
        if 0 < self._unreadable_until_us <= now_us:
            self._unreadable_until_us = 0
            self.alarms.end(BODIES_UNREADABLE, now_us)

    def next_deadline_us(self) -> int:
        """When `on_time` wants to be called, wall clock; 0 never."""
        due = _sooner(self.manager.next_deadline_us(), self.registry.next_deadline_us())
        due = _sooner(due, self.ledger.leases.next_expiry_us())
        due = _sooner(due, self.pacing.next_deadline_us())
        due = _sooner(due, self.channels.next_deadline_us())
        due = _sooner(due, self.dead_letters.next_deadline_us())
        due = _sooner(due, self.discards.next_deadline_us())
        due = _sooner(due, self._unreadable_until_us)
        due = _sooner(due, self.access.acts.next_deadline_us())
        due = _sooner(due, self.sign_ins.failures.next_deadline_us())
        due = _sooner(due, self.traffic.next_deadline_us())
        return _sooner(due, self.tokens.next_deadline_us())

    def fetched(self, fetch: Fetch, bodies: list[Body], now_us: int) -> None:
        """The bodies that ``fetch`` asked for. A damaged one ends its entry, not the broker; what the disk
        didn't give is asked for again."""
        for row, body in enumerate(bodies):
            if not isinstance(body, bytes):
                self._could_not_read(fetch.entries[row], body, now_us)
        self.manager.fetched(fetch.entries, bodies, now_us)

    def _could_not_read(self, entry: Entry, damage: LedgerCorrupt, now_us: int) -> None:
        what = "body-damaged"
        if isinstance(damage, BodyUnreadable):
            what = "body-unreadable"
            self.alarms.begin(BODIES_UNREADABLE, str(damage), now_us)
            self._unreadable_until_us = now_us + 2 * int(UNREADABLE_DELAY_US)
        log(logging.ERROR, what, queue=entry.queue.name, message=entry.serial, reason=str(damage))

    def ids_read(self, read: IdRead, found: list[Any], now_us: int) -> None:
        """The ids that ``read`` asked for."""
        self.manager.ids_read(read, found, now_us)

    def idle(self) -> bool:
        """Whether nothing waits for the disk; provisional work doesn't."""
        builder, wanted_through = self.ledger.builder, self.manager.core.durability.wanted_through()
        provisional = self.durable_through >= wanted_through < builder.next_position - 1
        return not self.ledger.in_flight and not self._waiting and (provisional or builder.empty())

    def _tend(self, now_us: int) -> None:
        """What the ledger itself has to record goes with this turn; a broken lease is an alarm."""
        self._keep_history(now_us)
        for lease in self.ledger.tend(now_us):
            log(
                logging.ERROR,
                "lease-broken",
                name=lease.name,
                owner=lease.owner,
                reason=lease.reason,
                position=lease.position,
                held_bytes=lease.held_bytes,
                queues=",".join(lease.queues),
            )
        self.heed_leases()
        self._watch_space(now_us)

    def _watch_space(self, now_us: int) -> None:
        """Whether new messages are taken, and who is to know that the disk runs full."""
        ledger = self.ledger
        short, low = ledger.space_short, ledger.space_low
        if short != self._space_is_short or low != self.space_low:
            self._space_is_short, self.space_low = short, low
            self.alarms.of_space(short, low, ledger.free_bytes, now_us)
            if not low:
                self._let_send(now_us)

    def _let_send(self, now_us: int) -> None:
        held_back = list(self.held_back)
        self.held_back.clear()
        for link in held_back:
            link.unblocked(now_us)

    def _keep_history(self, now_us: int) -> None:
        """What Spark subscriptions have not confirmed stays, as long as there is room for it."""
        core, leases = self.manager.core, self.ledger.leases
        if leases.also_reason:
            self.manager.spark_subscriptions.let_history_go(leases.also_reason, now_us)
        unread = spark_subscriptions_of(core).unread_from
        if unread != self._unread_from:
            self._unread_from = unread
            leases.also_keep(NEVER if unread == NO_POSITION else int(unread))

    def _commit(self) -> None:
        """Send a block off unless one is in flight: the queue manager's bounds of a turn hold for a block."""
        if self.ledger.in_flight:
            self._take_at_once(self.manager.core.effects)
            return
        effects = self.manager.take_effects()
        self._take_at_once(effects)
        if self.after or not effects.empty():
            self._waiting.append(Waiting(self.manager.core.durability.wanted_through(), effects, self.after))
            self.after = []
        if self._somebody_waits():
            self._submit()

    def _somebody_waits(self) -> bool:
        """Whether the ledger has been given anything but provisional work, or very much of that."""
        builder, wanted_through = self.ledger.builder, self.manager.core.durability.wanted_through()
        if self.stopping or wanted_through == builder.next_position - 1:
            return True
        bound = min(
            PROVISIONAL_BYTES, self.config.limits.unsynced_bytes // 2, self.ledger.most_unsynced_bytes
        )
        return wanted_through > self.durable_through or builder.waiting_bytes() >= bound

    def _take_at_once(self, effects: Effects) -> None:
        """Reading bodies and ids waits for nothing, nor do answers that promise nothing."""
        if effects.provisional:
            release_provisional(effects)
        if effects.fetches:
            self.fetches.extend(effects.fetches)
            effects.fetches.clear()
        if effects.id_reads:
            self.id_reads.extend(effects.id_reads)
            effects.id_reads.clear()

    def _submit(self) -> None:
        builder = self.ledger.builder
        waiting_bytes = builder.waiting_bytes()
        if self.ledger.submit():
            self.in_flight_bytes = waiting_bytes - builder.waiting_bytes()

    def _release(self, now_us: int) -> bool:
        """Carry out what waited for what is durable now; whether there was anything."""
        waiting, durable_through = self._waiting, self.durable_through
        if not waiting or waiting[0].position > durable_through:
            return False
        while waiting and waiting[0].position <= durable_through:
            turn = waiting.popleft()
            release(turn.effects, now_us)
            if turn.effects.discarded:
                self.discards.note(turn.effects.discarded, now_us)
            for binding, action in turn.after:
                try:
                    action(now_us)
                except Exception:
                    binding.fail()
        for binding in list(self.touched):
            binding.refill(now_us)
        return True


def _sooner(due_us: i64, other_us: i64) -> i64:
    """The earlier of two deadlines, of which 0 is never."""
    return due_us if other_us == 0 or 0 < due_us <= other_us else other_us
