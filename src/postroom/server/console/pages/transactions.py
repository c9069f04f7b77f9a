"""Who holds messages, and for how long: local transactions, XA branches, confirm ids and browse locks."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from starlette.responses import Response

from postroom.model.entity_types import BRANCH_TYPE, CONNECTION_TYPE, STORE_HOLDER_TYPE, TRANSACTION_TYPE
from postroom.server.console.actions import Action, Confirmation, Outcome
from postroom.server.console.formats import count, duration, path_of, words
from postroom.server.console.list_page import ListPage
from postroom.server.console.listing import BADGE, COUNT, DURATION, Column
from postroom.server.console.page import Page
from postroom.server.console.pages.queue_actions import messages
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes

LOCAL, XA, STORE = "transaction", "xa-branch", "store-holder"
COLUMNS = (
    Column("title", "Who", link=lambda row: path_of("transactions", row["of"], row["name"])),
    Column("kind", "Kind", BADGE),
    Column("state", "State", BADGE),
    Column("age_us", "Held for", DURATION),
    Column("puts", "Puts", COUNT),
    Column("gets", "Gets", COUNT),
    Column("user", "User"),
    Column("container_id", "Container", wide=True),
)
PREPARED: Final = "prepared"
HEURISTIC: Final = "heuristic"


def _local(row: Attributes) -> Attributes:
    title = f"{row['container_id']} ({row['connection']})"
    return {**row, "of": LOCAL, "kind": "local transaction", "title": title, "gets": row["receipts"]}


def _branch(row: Attributes) -> Attributes:
    return {**row, "of": XA, "kind": "XA branch", "title": row["name"], "gets": row["receipts"]}


def _store(row: Attributes) -> Attributes:
    number = f"confirm id {row['confirm_id']}" if row["confirm_id"] else f"lock {row['lock_id']}"
    held = {"puts": 0, "gets": row["messages"], "container_id": "", "state": ""}
    kind = words(row["kind"])
    return {**row, **held, "of": STORE, "kind": kind, "title": f"{number} on {row['queue']}"}


class TransactionList(ListPage, path="/transactions"):
    """All of them, by age."""

    title: ClassVar = "Transactions and locks"
    what: ClassVar = "holders"
    columns: ClassVar = COLUMNS
    searched: ClassVar = ("title", "kind", "state", "user", "container_id")
    sort: ClassVar = "-age_us"
    max_followed: ClassVar = math.inf
    about: ClassVar = (
        "Local transactions that are open, XA branches, confirm ids and browse locks: what they hold, "
        "nobody else can receive."
    )

    async def rows(self, visit: Visit) -> list[Attributes]:
        """Of all three kinds, alike."""
        now_us = time.time_ns() // 1000
        found = [_local(row) for row in await visit.rows(TRANSACTION_TYPE)]
        found += [_branch(row) for row in await visit.rows(BRANCH_TYPE)]
        found += [_store(row) for row in await visit.rows(STORE_HOLDER_TYPE)]
        return [{**row, "age_us": max(0, now_us - row["since_us"])} for row in found]


class _OfBranch(Action):
    """An administrator's decision of an XA branch."""

    operation: ClassVar[str]
    states: ClassVar[tuple[str, ...]]
    """That a branch must be in; empty: any but those of other decisions."""
    done: ClassVar[str]

    def effects(self, branch: Attributes) -> Sequence[str]:
        """In words."""
        raise NotImplementedError

    def is_possible(self, branch: Attributes) -> bool:
        """Whether the branch is in a state for it."""
        return any(branch["state"].startswith(state) for state in self.states)

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        branch = await visit.manage("READ", BRANCH_TYPE, name)
        title = f"{self.label} {name}?"
        if not self.is_possible(branch):
            what = f"The branch is {words(branch['state'])}; this is for one that is {self.states[0]}."
            return Confirmation(title, [what], possible=False)
        return Confirmation(title, self.effects(branch))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage(self.operation, BRANCH_TYPE, name)
        return Outcome(f"{self.done}: branch {name}.", "/transactions")


def _work(branch: Attributes) -> str:
    return f"{messages(branch['puts'])} put and {messages(branch['receipts'])} received in it"


class _Heuristic(_OfBranch):
    """In the place of the transaction manager."""

    states: ClassVar = (PREPARED,)
    puts: ClassVar[str]
    receipts: ClassVar[str]
    other: ClassVar[str]

    def effects(self, branch: Attributes) -> Sequence[str]:
        return (
            f"{_work(branch)}: what was put {self.puts}, what was received {self.receipts}.",
            f"This decides in the place of its transaction manager. If that decides to {self.other}, the "
            "parts of the transaction differ for good: do it only when that won't come back.",
        )


class HeuristicCommit(_Heuristic, name="heuristic-commit", label="Commit", danger=True):
    """Commit in the place of the transaction manager."""

    operation: ClassVar = "HEURISTIC-COMMIT"
    done: ClassVar = "Committed heuristically"
    puts, receipts, other = "can be received", "is gone", "roll back"


class HeuristicRollback(_Heuristic, name="heuristic-rollback", label="Roll back", danger=True):
    """Roll back in the place of the transaction manager."""

    operation: ClassVar = "HEURISTIC-ROLLBACK"
    done: ClassVar = "Rolled back heuristically"
    puts, receipts, other = "is gone", "goes back to its queue", "commit"


class Forget(_OfBranch, name="forget", label="Forget", danger=True):
    """Delete the record of a heuristic decision."""

    operation: ClassVar = "DELETE"
    states: ClassVar = (HEURISTIC,)
    done: ClassVar = "Forgotten"

    def effects(self, branch: Attributes) -> Sequence[str]:
        return (
            "Its decision was made here, and has been carried out. The broker remembers it, so that it can "
            "tell the transaction manager. After this it can't.",
        )


class OneBranch(Page, path=f"/transactions/{XA}/{{name:path}}"):
    """An XA branch, by its Xid."""

    actions: ClassVar = (HeuristicCommit(), HeuristicRollback(), Forget())

    async def show(self, visit: Visit) -> Response:
        branch = await visit.manage("READ", BRANCH_TYPE, visit.name)
        offered = [each for each in self.actions if each.is_possible(branch)]
        pairs = [
            ("State", words(branch["state"])),
            ("Messages put in it", count(branch["puts"])),
            ("Messages received in it", count(branch["receipts"])),
            ("User", branch["user"]),
            ("Container", branch["container_id"]),
            ("Decided by", branch["decided_by"] or "nobody here"),
        ]
        return _holder_page(visit, f"XA branch {visit.name}", branch, pairs, offered)


class CloseConnection(Action, name="roll-back", label="Roll back", danger=True):
    """What ends a local transaction: its connection goes."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        held = await visit.manage("READ", TRANSACTION_TYPE, name)
        effects = [
            f"The connection from {held['connection']} ({held['container_id']}) is closed, with all that it "
            "does: that is the only way to end a local transaction for its client.",
            f"{messages(held['puts'])} put in it are gone, {messages(held['receipts'])} received in it go "
            "back to their queues.",
        ]
        return Confirmation(f"Roll back transaction {name}?", effects)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        held = await visit.manage("READ", TRANSACTION_TYPE, name)
        await visit.manage("CLOSE", CONNECTION_TYPE, held["connection"])
        return Outcome(f"Rolled back: transaction {name}.", "/transactions")


class OneTransaction(Page, path=f"/transactions/{LOCAL}/{{name:path}}"):
    """A local transaction, by its number."""

    actions: ClassVar = (CloseConnection(),)

    async def show(self, visit: Visit) -> Response:
        held = await visit.manage("READ", TRANSACTION_TYPE, visit.name)
        pairs = [
            ("State", words(held["state"])),
            ("Messages put in it", count(held["puts"])),
            ("Messages received in it", count(held["receipts"])),
            ("Sends that wait for room", count(held["blocked_sends"])),
            ("User", held["user"]),
            ("Container", held["container_id"]),
            ("Connection", held["connection"]),
        ]
        return _holder_page(visit, f"Transaction {visit.name}", held, pairs, self.actions)


class EndHolder(Action, name="end", label="Give back", danger=True):
    """Give back what a confirm id or browse lock holds."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        held = await visit.manage("READ", STORE_HOLDER_TYPE, name)
        effects = [
            f"{messages(held['messages'])} of {held['queue']} that it holds: those that were put under it "
            "are gone, as undo has it; those that were got or locked can be received again.",
            "Its client hears of it when it uses it next.",
        ]
        return Confirmation(f"Give back what {words(held['kind'])} {name} holds?", effects)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        done = await visit.manage("END", STORE_HOLDER_TYPE, name)
        return Outcome(f"Given back: {messages(int(done['count']))}.", "/transactions")


class OneStoreHolder(Page, path=f"/transactions/{STORE}/{{name:path}}"):
    """A confirm id or browse lock, by its number."""

    actions: ClassVar = (EndHolder(),)

    async def show(self, visit: Visit) -> Response:
        held = await visit.manage("READ", STORE_HOLDER_TYPE, visit.name)
        pairs = [
            ("Queue", held["queue"]),
            ("Messages held", count(held["messages"])),
            ("Messages got through it", count(held["messages_got"])),
            ("Confirm id", held["confirm_id"] or "none"),
            ("Lock", held["lock_id"] or "none"),
            ("User", held["user"]),
        ]
        return _holder_page(
            visit, f"{words(held['kind']).capitalize()} {visit.name}", held, pairs, self.actions
        )


def _holder_page(
    visit: Visit,
    title: str,
    held: Attributes,
    pairs: list[tuple[str, Any]],
    actions: Sequence[Action],
) -> Response:
    age_us = max(0, time.time_ns() // 1000 - held["since_us"])
    pairs.append(("Held for", duration(age_us)))
    return visit.page("holder.html", title=title, pairs=pairs, actions=actions)
