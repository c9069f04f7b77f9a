"""Who holds messages, and for how long: local transactions, XA branches, confirm ids and browse locks."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from starlette.responses import Response

from postroom.model.entity_types import BRANCH_TYPE, CONNECTION_TYPE, STORE_HOLDER_TYPE, TRANSACTION_TYPE
from postroom.server.console.actions import Action, Confirmation, Outcome
from postroom.server.console.formats import count, duration, path_of, words
from postroom.server.console.listing import BADGE, COUNT, DURATION, Column, Listing
from postroom.server.console.page import Figures, Page
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


async def _everybody(visit: Visit) -> list[Attributes]:
    """Rows of all three kinds, alike."""
    now_us = time.time_ns() // 1000
    found = [_local(row) for row in await visit.rows(TRANSACTION_TYPE)]
    found += [_branch(row) for row in await visit.rows(BRANCH_TYPE)]
    found += [_store(row) for row in await visit.rows(STORE_HOLDER_TYPE)]
    return [{**row, "age_us": max(0, now_us - row["since_us"])} for row in found]


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


class TransactionList(Page):
    """All of them, by age."""

    path: ClassVar = "/transactions"
    interval_s: ClassVar = 5.0

    async def show(self, visit: Visit) -> Response:
        listing = await _listed(visit)
        if visit.is_fragment:
            return visit.page("listing.html", listing=listing)
        about = (
            "Local transactions that are open, XA branches, confirm ids and browse locks: what they hold, "
            "nobody else can receive."
        )
        live = f"{visit.path}{listing.url(live=1)}"
        title = "Transactions and locks"
        return visit.page("list.html", title=title, about=about, listing=listing, actions=(), live_path=live)

    async def figures(self, visit: Visit) -> Figures:
        return Figures({"rows": visit.render("listing_rows.html", listing=await _listed(visit))})


async def _listed(visit: Visit) -> Listing:
    searched = ("title", "kind", "state", "user", "container_id")
    return Listing(visit, await _everybody(visit), COLUMNS, "holders", searched, "-age_us")


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


class HeuristicCommit(_OfBranch):
    """Commit in the place of the transaction manager."""

    name: ClassVar = "heuristic-commit"
    label: ClassVar = "Commit"
    danger: ClassVar = True
    operation: ClassVar = "HEURISTIC-COMMIT"
    states: ClassVar = (PREPARED,)
    done: ClassVar = "Committed heuristically"

    def effects(self, branch: Attributes) -> Sequence[str]:
        return (
            f"{_work(branch)}: what was put can be received, what was received is gone.",
            "This decides in the place of its transaction manager. If that decides to roll back, the parts "
            "of the transaction differ for good: do it only when that won't come back.",
        )


class HeuristicRollback(_OfBranch):
    """Roll back in the place of the transaction manager."""

    name: ClassVar = "heuristic-rollback"
    label: ClassVar = "Roll back"
    danger: ClassVar = True
    operation: ClassVar = "HEURISTIC-ROLLBACK"
    states: ClassVar = (PREPARED,)
    done: ClassVar = "Rolled back heuristically"

    def effects(self, branch: Attributes) -> Sequence[str]:
        return (
            f"{_work(branch)}: what was put is gone, what was received goes back to its queue.",
            "This decides in the place of its transaction manager. If that decides to commit, the parts of "
            "the transaction differ for good: do it only when that won't come back.",
        )


class Forget(_OfBranch):
    """Delete the record of a heuristic decision."""

    name: ClassVar = "forget"
    label: ClassVar = "Forget"
    danger: ClassVar = True
    operation: ClassVar = "DELETE"
    states: ClassVar = (HEURISTIC,)
    done: ClassVar = "Forgotten"

    def effects(self, branch: Attributes) -> Sequence[str]:
        return (
            "Its decision was made here, and has been carried out. The broker remembers it, so that it can "
            "tell the transaction manager. After this it can't.",
        )


class OneBranch(Page):
    """An XA branch, by its Xid."""

    path: ClassVar = f"/transactions/{XA}/{{name:path}}"
    section: ClassVar = "/transactions"
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


class CloseConnection(Action):
    """What ends a local transaction: its connection goes."""

    name: ClassVar = "roll-back"
    label: ClassVar = "Roll back"
    danger: ClassVar = True

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


class OneTransaction(Page):
    """A local transaction, by its number."""

    path: ClassVar = f"/transactions/{LOCAL}/{{name:path}}"
    section: ClassVar = "/transactions"
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


class EndHolder(Action):
    """Give back what a confirm id or browse lock holds."""

    name: ClassVar = "end"
    label: ClassVar = "Give back"
    danger: ClassVar = True

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


class OneStoreHolder(Page):
    """A confirm id or browse lock, by its number."""

    path: ClassVar = f"/transactions/{STORE}/{{name:path}}"
    section: ClassVar = "/transactions"
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
