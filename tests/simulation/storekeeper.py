"""A user of the message store: puts, gets, locks, confirms and undoes, over crashes and lost connections."""

from postroom.amqp.message.sections import Message
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.actors import Surroundings, decode, new_message
from tests.simulation.batch import ABSENT, GOT, GOT_LOCKED, LOCKED, MOVES, PUT, Batch
from tests.simulation.managers import MESSAGE_TYPE, NO_MATCH, OK, Manager, number, parts_of
from tests.simulation.oracle import Broken

ORIGIN = "simulation"
LEASE_US = 300_000_000
"""How long locks hold that say nothing (the queue manager's default)."""
SHORT_LEASES_MS = (20, 2000)
MOST = 6
"""Messages under one confirm id, of those that are put or got."""


class Storekeeper(Manager):
    """Works on a batch; when it has gone, another takes it up where it is."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.batch = self._take_up()
        self.queue = self.batch.queue
        self.verb = ""
        """What was requested last, of which message (0: all, or one that nobody knows)."""
        self.id = 0
        self.requested_us = 0
        self.finishes = False
        """Nothing new: what is held is to be decided."""

    def _take_up(self) -> Batch:
        """What somebody has left behind, or something new."""
        if self.world.batches:
            return self.world.batches.pop(0)
        self.world.confirm_ids += 1
        return Batch(self.queue, self.world.confirm_ids, self.world.oracle)

    def gone(self) -> None:
        super().gone()
        self.world.batches.append(self.batch)

    # What is requested.

    def go_on(self) -> None:
        batch, random = self.batch, self.world.random
        if batch.unknown:
            self.decide("undo")
        elif self.finishes or not batch.certain() or random.random() < 0.15:
            absent = batch.perhaps_put()
            if absent and random.random() < 0.5:
                self.put_again(absent[0])
            else:
                self.decide(random.choice(("confirm", "undo")))
        else:
            random.choice((self.put, self.get, self.lock, *[self.do_one] * 3, self.browse))()

    def request(self, verb: str, id: int, operation: str, body: dict[str, object]) -> None:
        self.verb, self.id, self.requested_us = verb, id, self.world.now_us
        if verb in MOVES:
            self.batch.requested(verb, id, self.world.now_us)
        self.send_request(operation, MESSAGE_TYPE, {}, body)

    def under_id(self) -> dict[str, object]:
        return {"confirm_id": self.batch.confirm_id}

    def decide(self, verb: str) -> None:
        self.request(verb, 0, verb.upper(), self.under_id())

    def put(self) -> None:
        if len(self.batch.fates) >= MOST:
            return
        fate, message = new_message(self.world, self.queue, f"store {self.world.confirm_ids}", None, 10)
        fate.stream = (f"{fate.id}", 0)  # the order is that of confirmations
        self.batch.messages[fate.id] = message
        self.batch.add(fate, ABSENT, {"origin": ORIGIN, "time": fate.id})
        self._put("put", fate.id, False)

    def put_again(self, id: int) -> None:
        """Nobody knows whether it was put: Msg_Resend."""
        self._put("put again", id, True)

    def _put(self, verb: str, id: int, resend: bool) -> None:
        body = {
            **self.under_id(),
            **self.batch.unique_ids[id],
            "message": self.batch.messages[id],
            "resend": resend,
        }
        self.request(verb, id, "PUT-MESSAGE", body)

    def get(self) -> None:
        if len(self.batch.fates) < MOST:
            self.request("get", 0, "GET-MESSAGE", self.under_id())

    def lock(self) -> None:
        batch, random = self.batch, self.world.random
        if batch.those(LOCKED) or batch.those(GOT_LOCKED):
            return
        lease_ms = random.choice((0, 0, *SHORT_LEASES_MS))
        batch.locked_until_us = self.world.now_us + (lease_ms * 1000 or LEASE_US)
        if lease_ms:
            self.world.oracle.perturbed(self.queue)
        which = random.choice(({}, {"priority": 4}, {"priority": 9}))
        self.request("lock", 0, "BROWSE-AND-LOCK", {**self.under_id(), **which, "lease_ms": lease_ms})

    def do_one(self) -> None:
        """Something about one message that is held."""
        batch, random = self.batch, self.world.random
        if not batch.fates:
            return
        id = random.choice(list(batch.fates))
        state, meant = batch.worlds[0][id], batch.unique_ids[id]
        if state == PUT:
            self.request("confirm put", id, "CONFIRM-PUT", {**meant, **self.under_id()})
        elif state in (GOT, GOT_LOCKED):
            self.request("confirm get", id, "CONFIRM-GET", {**meant, **self.under_id()})
        elif state == LOCKED:
            self.do_locked(id, {**meant, "lock_id": batch.lock_id})

    def do_locked(self, id: int, meant: dict[str, object]) -> None:
        verb = self.world.random.choice(
            (*["get locked"] * 3, "delete locked", "unlock", "unlock all", "browse")
        )
        if verb == "get locked":
            self.request(verb, id, "GET-MESSAGE", {**meant, **self.under_id()})
        elif verb == "delete locked":
            self.request(verb, id, "DELETE-MESSAGE", meant)
        elif verb == "browse":
            self.request("browse locked", 0, "BROWSE", {"lock_id": self.batch.lock_id})
        elif verb == "unlock":
            self.request(verb, id, "UNLOCK", meant)
        else:
            self.request("unlock", 0, "UNLOCK", {"lock_id": self.batch.lock_id})

    def browse(self) -> None:
        self.request("browse", 0, "BROWSE", {})

    # What is answered.

    def on_reply(self, reply: Message) -> None:
        status, condition, body = parts_of(reply)
        if status != OK and condition != NO_MATCH:
            self.refused(condition)
        elif self.verb in MOVES:
            count = number(body["count"]) if status == OK else None
            self.batch.answered(self.verb, self.id, count, self.world.now_us)
        else:
            rows = body.get("messages", [])
            assert isinstance(rows, list)
            self.shown(rows, body)
        if not self.batch.fates and self.batch.certain() and not self.finishes:
            self.batch = self._take_up()
            self.queue = self.batch.queue

    def refused(self, condition: str) -> None:
        """A put that has no room, or a pause in its way."""
        if self.verb not in ("put", "put again") or condition == "postroom:duplicate-message":
            raise Broken(f"{self.verb} of message {self.id} was refused: {condition}")
        self.batch.refused(self.id, self.world.now_us)

    def shown(self, rows: list[dict[str, object]], body: dict[str, object]) -> None:
        """The answer to a browse, to a lock, or to a get of whatever comes first."""
        ids = [self._id_of(row) for row in rows]
        if self.verb == "browse":
            self._check_browsed(ids)
        elif self.verb == "browse locked":
            self._check_locked(ids)
        elif self.verb == "get":
            self._hold(ids, rows, GOT)
        elif ids:
            self.batch.lock_id = number(body["lock_id"])
            if self.world.now_us < self.batch.locked_until_us:
                self._hold(ids, rows, LOCKED)
            else:  # the lease may have begun only when the broker heard of it
                self._holds_unknown()

    def _id_of(self, row: dict[str, object]) -> int:
        message = row["message"]
        assert isinstance(message, bytes)
        id, _ = decode(message)
        self.world.oracle.seen(id, self.queue, self.world.now_us, since_us=self.requested_us)
        return id

    def _hold(self, ids: list[int], rows: list[dict[str, object]], state: str) -> None:
        for id, row in zip(ids, rows, strict=True):
            fate = self.world.oracle.taken(id, self.queue, self.world.now_us, self.name)
            self.batch.add(fate, state, {"origin": row["origin"], "time": row["time"]})

    def _check_browsed(self, ids: list[int]) -> None:
        """What is held nobody sees without its lock id."""
        for id in set(ids) & set(self.batch.fates):
            if self.world.now_us < self.batch.fates[id].withheld_until_us:
                raise Broken(f"message {id} was browsed while confirm id {self.batch.confirm_id} holds it")

    def _check_locked(self, ids: list[int]) -> None:
        locked = self.batch.those(LOCKED)
        must = [id for id in locked if not self.batch.may_vanish(id, LOCKED, self.world.now_us)]
        if not set(must) <= set(ids) <= set(locked):
            raise Broken(f"lock {self.batch.lock_id} holds {locked}, and its browse shows {ids}")

    def unanswered(self) -> None:
        if self.verb in MOVES:
            self.batch.unanswered(self.verb, self.id, self.world.now_us)
        elif self.verb in ("get", "lock"):
            self._holds_unknown()

    def _holds_unknown(self) -> None:
        self.batch.unknown = True
        self.world.oracle.perturbed(self.queue)
