"""Somebody who uses the message store while the power fails: what he was answered must hold.

He asks for one thing at a time of each message and keeps the set of states that it can be in: one after an
answer, two or more after a crash that swallowed the answer. Each later answer must fit one of them.
"""

from postroom.manager.asking import StoreRequest
from postroom.manager.effects import Asker
from postroom.manager.errors import DuplicateMessage, NoMatchingMessage
from postroom.manager.options import QueueDefinition
from postroom.manager.queue import Queue
from postroom.manager.store_browsing import BrowseAndLock
from postroom.manager.store_filter import StoreFilter
from postroom.manager.store_putting import ConfirmPut, Put
from postroom.manager.store_verbs import ConfirmGet, Delete, Get, Undo
from postroom.model.ids import pack_unique_id
from postroom.model.message import MessageHead
from tests.simulation.oracle import Broken
from tests.simulation.world import World

QUEUE = "store"
GONE, PUT, FREE, LOCKED, GOT = "gone", "put", "free", "locked", "got"

MOVES: dict[str, dict[str, str]] = {
    "put": {GONE: PUT},
    "confirm_put": {PUT: FREE, FREE: FREE},
    "lock": {FREE: LOCKED},
    "get": {FREE: GOT},
    "confirm_get": {GOT: GONE},
    "undo": {PUT: GONE, LOCKED: FREE, GOT: FREE},
    "delete": {FREE: GONE},
}
"""Verb → state → state; from any other state it finds nothing (or, for a put, a duplicate)."""
TO_THE_END = ("undo", "undo", "confirm_put", "delete")
"""From whatever state, these end a message."""


class Asked(Asker):
    """One request about one message."""

    def __init__(self, keeper: "Storekeeper", number: int, verb: str) -> None:
        self.keeper = keeper
        self.number = number
        self.verb = verb

    def answered(self, payload: object, now_us: int) -> None:
        self.keeper.answered(self, payload)


class Storekeeper:
    """Puts, gets, locks and undoes, each message under a confirm id of its own."""

    def __init__(self, world: "StoreWorld") -> None:
        self.world = world
        self.states: dict[int, set[str]] = {}
        self.asked: dict[int, Asked] = {}
        """By message: what has no answer yet."""
        self.checks = 0

    def act(self) -> None:
        """Ask for something, of a message that waits for no answer."""
        random = self.world.random
        idle = [number for number in self.states if number not in self.asked]
        if not idle or random.random() < 0.25:
            number = len(self.states) + 1
            self.states[number] = {GONE}
            self.ask(number, "put")
        else:
            self.ask(random.choice(idle[-8:]), random.choice(list(MOVES)))

    def ask(self, number: int, verb: str) -> None:
        asked = Asked(self, number, verb)
        self.asked[number] = asked
        queue = self.world.manager.queue(QUEUE)
        self.world.manager.ask_store(self._request(queue, asked), self.world.now_us)

    def _request(self, queue: Queue, asked: Asked) -> StoreRequest:
        number, verb = asked.number, asked.verb
        wanted = StoreFilter()
        wanted.unique_id = pack_unique_id("SIM", number)
        if verb == "put":
            head = MessageHead()
            head.durable = True
            head.unique_id = wanted.unique_id
            return Put(queue, asked, self.world.producer, head, bytes(40), number, False)
        if verb == "lock":
            return BrowseAndLock(queue, asked, wanted, True, number, 0)
        if verb == "undo":
            return Undo(queue, asked, number)
        if verb == "delete":
            return Delete(queue, asked, wanted)
        if verb == "get":
            return Get(queue, asked, wanted, number, 0)
        kind = ConfirmPut if verb == "confirm_put" else ConfirmGet
        return kind(queue, asked, wanted, number)

    def answered(self, asked: Asked, payload: object) -> None:
        """An answer narrows down what the message can be."""
        if self.asked.get(asked.number) is not asked:
            raise Broken(f"an answer to {asked.verb} of message {asked.number} that nobody waits for")
        del self.asked[asked.number]
        moves, before = MOVES[asked.verb], self.states[asked.number]
        if isinstance(payload, NoMatchingMessage | DuplicateMessage):
            after = {state for state in before if state not in moves}
        elif isinstance(payload, Exception):
            raise payload
        else:
            after = {moves[state] for state in before if state in moves}
        if not after:
            raise Broken(f"message {asked.number} was {before}; {asked.verb} answered {payload}")
        self.states[asked.number] = after
        self.checks += 1

    def crashed(self) -> None:
        """What had no answer may have happened, or not."""
        for number, asked in self.asked.items():
            moves = MOVES[asked.verb]
            self.states[number] |= {moves[state] for state in self.states[number] if state in moves}
        self.asked.clear()

    def finish(self) -> None:
        """End every message: each must still be in a state that it can be in, and no other is there."""
        for number in list(self.states):
            for verb in TO_THE_END:
                self.ask(number, verb)
                self.world.settle()
        depth = self.world.manager.queue(QUEUE).statistics.depth
        if depth:
            raise Broken(f"{depth} messages are left that nobody put")


class StoreWorld(World):
    """As `World`, with a storekeeper in it."""

    def __init__(self, seed: int) -> None:
        self.keeper = Storekeeper(self)
        super().__init__(seed)

    def _start(self) -> None:
        super()._start()
        if QUEUE not in self.manager.queues:
            self.manager.create_queue(QueueDefinition(name=QUEUE), self.now_us)
        self.producer = self.manager.open_producer("keeper", "simulated", "")

    def act(self) -> None:
        if self.random.random() < 0.5:
            self.keeper.act()
        super().act()

    def crash(self) -> None:
        self.keeper.crashed()
        super().crash()

    def finish(self) -> None:
        self.settle()
        self.keeper.finish()
        super().finish()
