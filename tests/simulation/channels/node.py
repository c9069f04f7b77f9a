"""One queue manager of the world: its disk, its ledger, its broker, and the power that may fail."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.manager.manager import QueueManager
from postroom.model.channel_states import ChannelState, Role
from postroom.server.assembly import define_channels, define_queues, manager_options
from postroom.server.channels.outbound_connection import Outward
from postroom.server.configuration.config import Config
from postroom.server.connection.broker import Broker
from tests.originals import ORIGINALS_TOML
from tests.simulation.disk import SimDisk
from tests.simulation.world import SimWriter

LEDGER = LedgerOptions(journal_file_bytes=1 << 18, reserve_bytes=0, retention_bytes=1 << 30)
"""All history is kept: the audit reads it."""
DEFAULTS = tomllib.loads(ORIGINALS_TOML)


class Node:
    """A machine: its process may end and begin again, its disk keeps what was synced."""

    def __init__(self, name: str, settings: dict[str, object], random: Random, now_us: int) -> None:
        self.name = name
        self.config = msgspec.convert({"container_id": name, **DEFAULTS, **settings}, Config)
        self.random = random
        self.disk = SimDisk()
        self.lives = 0
        self.boot(now_us)

    def boot(self, now_us: int) -> None:
        """The process begins, on whatever the disk holds."""
        self.turn_wanted = True
        self.lives += 1
        self.names = 0
        writer = SimWriter(self.disk)
        folder = Path(f"simulated-{self.name}")
        self.ledger = Ledger.open(folder, LEDGER, now_us, disk=self.disk, writer=writer, maintenance="manual")
        self.manager = QueueManager(manager_options(self.config), self.ledger.builder)
        self.manager.restore(self.ledger.recovered, now_us)
        define_queues(self.config, self.manager, now_us)
        self.broker = Broker(self.config, self.ledger, self.manager, self._new_name)
        self.broker.channels.restore(now_us)
        define_channels(self.config, self.broker.channels, now_us)
        self.start_requesters(now_us)

    def start_requesters(self, now_us: int) -> None:
        """Nothing triggers them, and they don't retry: somebody starts them again and again."""
        for channel in self.broker.channels.all():
            if channel.role == Role.REQUESTER and channel.state == ChannelState.INACTIVE:
                channel.start(now_us)

    def begin_sequences(self, first: int, now_us: int) -> None:
        """The first message of each sending channel has this number."""
        for channel in self.broker.channels.all():
            if channel.definition.sending:
                self.broker.channels.reset(channel.name, first, now_us)

    def stop(self, now_us: int) -> None:
        """Begin an orderly end: no more connections, and every one that there is closed."""
        self.turn_wanted = True
        self.broker.stopping = True
        self.broker.channels.shut_down(now_us)
        for binding in list(self.broker.connections):
            binding.close()

    def crash(self, now_us: int) -> None:
        """The power fails, and comes back."""
        self.disk = self.disk.crash(self.random)
        self.boot(now_us)

    def _new_name(self) -> str:
        self.names += 1
        return f"{self.name}-{self.lives}-{self.names}"

    # What its process may do next.

    def steps(self, now_us: int) -> list[tuple[str, Callable[[], None]]]:
        """Name and deed of everything that it has to do, in no more than one order."""
        found: list[tuple[str, Callable[[], None]]] = []
        if self.broker.fetches or self.broker.id_reads:
            found.append((f"{self.name} reads", lambda: self.fetch(now_us)))
        if self.wants_turn():
            found.append((f"{self.name} ends its turn", lambda: self.end_turn(now_us)))
        if self.ledger.in_flight:
            found.append((f"{self.name} has synced", lambda: self.broker.completed(now_us)))
        return found

    def wants_turn(self) -> bool:
        """Whether something has come in, or the end of a turn would bring anything forward."""
        waits = not self.ledger.in_flight and not self.broker.idle()
        return self.turn_wanted or self.broker.wants_turn or waits

    def end_turn(self, now_us: int) -> None:
        self.turn_wanted = False
        self.broker.end_turn(now_us)

    def fetch(self, now_us: int) -> None:
        self.turn_wanted = True
        while self.broker.fetches:
            fetch = self.broker.fetches.pop(0)
            bodies = self.ledger.read_bodies(fetch.wanted)
            for damage in bodies:
                if isinstance(damage, LedgerCorrupt):
                    raise damage  # this disk damages nothing: it is our own doing
            self.broker.fetched(fetch, bodies, now_us)
        while self.broker.id_reads:
            read = self.broker.id_reads.pop(0)
            if read.all_serials is None:
                self.broker.ids_read(read, list(self.ledger.read_ids(read.serials)), now_us)
            else:
                self.broker.ids_read(read, list(self.ledger.hash_ids(read.all_serials)), now_us)

    def on_time(self, now_us: int) -> None:
        """Time has passed."""
        self.turn_wanted = True
        self.broker.on_time(now_us)
        self.start_requesters(now_us)
        for binding in list(self.broker.connections):
            binding.on_time(now_us, now_us)

    def next_deadline_us(self) -> int:
        """When time is next wanted; 0 never."""
        bindings = [binding.next_deadline_us() for binding in self.broker.connections]
        return min((due for due in (self.broker.next_deadline_us(), *bindings) if due), default=0)

    def take_wanted(self) -> list[Outward]:
        """Connections that its channels want."""
        wanted = self.broker.channels.wanted[:]
        self.broker.channels.wanted.clear()
        return [outward for outward in wanted if not outward.over]
