"""A run: clients all the time, one fault after the other, and at the end the accounts and the ledgers."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from postroom.ledger.verification.verification import Severity, verify
from postroom.spark.places.folder import FolderPlace
from tests.replication.run.account import Account
from tests.replication.run.acts import ACTS, IN_NAMESPACES, listed, wait_for_followers
from tests.replication.run.branches import Branches
from tests.replication.run.stage import NATS, Failed, Stage
from tests.replication.run.store import StoreVerbs
from tests.replication.run.traffic import Mover, Receiver, Sender, Traffic, TransactedSender
from tests.spark.real_ledgers import rows_of

STEPS: Final = 3
"""Answers that each client has after a fault before the next one comes."""


@dataclass
class Run:
    """What a run has shown."""

    problems: list[str] = field(default_factory=list)
    rounds: Counter[str] = field(default_factory=Counter)
    """By kind of fault."""
    take_overs: int = 0
    """Members that were active one after the other, as far as the rounds saw them."""
    exits: Counter[str] = field(default_factory=Counter)
    """How members ended by themselves: name and exit code."""
    accounts: dict[str, Account] = field(default_factory=dict)
    recovered: int = 0
    """Prepared branches that were there after a connection had broken."""
    folders: list[Path] = field(default_factory=list)
    """Of the members; that of the last active one first."""

    def summary(self) -> str:
        """In a few lines."""
        rounds = ", ".join(f"{name} {count}" for name, count in sorted(self.rounds.items()))
        exits = ", ".join(f"{name} {count}" for name, count in sorted(self.exits.items()))
        accounts = "; ".join(
            f"{name} {len(seen.accepted)} accepted, {len(seen.arrived)} came, {seen.repeats} again, flagged,"
            f" {len(seen.undone)} rolled back, {len(seen.in_doubt)} commits without an answer"
            for name, seen in self.accounts.items()
        )
        return (
            f"{self.take_overs} take-overs in {self.rounds.total()} rounds: {rounds}\nended by themselves"
            f" (member, exit code): {exits}\n{accounts}\n{self.recovered} prepared branches found again"
        )


def play(
    folder: Path,
    seed: int,
    goes_on: Callable[[Run], bool],
    names: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
    engine: str = NATS,
    in_namespaces: bool = False,
) -> Run:
    """Faults `names`, one after the other, then others by chance, while `goes_on`. Stops at the first
    problem."""
    run, chance = Run(), random.Random(seed)
    for queue in ("plain", "moved", "branches"):
        run.accounts[queue] = Account(queue, run.problems, is_ordered=queue != "branches")
    with suppress(Failed):
        try:
            with (
                Stage(folder, run.problems, engine, in_namespaces) as stage,
                _traffic(stage, run, seed) as traffic,
            ):
                try:
                    _rounds(stage, traffic, run, chance, goes_on, list(names), progress)
                    _drain(stage, traffic, run)
                    _end(stage, run)
                except Failed:
                    stage.write_stacks()
                    raise
                finally:
                    run.exits = stage.exits
        except Failed as failed:
            run.problems.append(f"the run can't go on: {failed}")
    return run


def _traffic(stage: Stage, run: Run, seed: int) -> Traffic:
    urls, accounts = stage.urls, run.accounts

    def chance(name: str) -> random.Random:
        return random.Random(f"{seed} {name}")

    return Traffic(
        [
            Sender("s1", urls, accounts["plain"], chance("s1")),
            Sender("s2", urls, accounts["plain"], chance("s2")),
            Receiver("r1", urls, accounts["plain"], chance("r1")),
            TransactedSender("t1", urls, "source", accounts["moved"], chance("t1")),
            Mover("mover", urls, "source", "moved"),
            Receiver("r2", urls, accounts["moved"], chance("r2")),
            Branches("x1", urls, accounts["branches"], chance("x1")),
            Receiver("r3", urls, accounts["branches"], chance("r3")),
            StoreVerbs("store", urls, run.problems, chance("store")),
        ],
        run.problems,
    )


def _rounds(
    stage: Stage,
    traffic: Traffic,
    run: Run,
    chance: random.Random,
    goes_on: Callable[[Run], bool],
    names: list[str],
    progress: Callable[[str], None],
) -> None:
    acts = ACTS if stage.namespaces is None else IN_NAMESPACES
    weights = [weight for _, weight in acts.values()]
    _wait_for_steps(stage, traffic)
    while names or goes_on(run):
        name = names.pop(0) if names else chance.choices(list(acts), weights)[0]
        before, begun_s = stage.active(), time.monotonic()
        acts[name][0](stage, chance)
        after = stage.active()
        _wait_for_steps(stage, traffic)
        run.rounds[name] += 1
        run.take_overs += after is not before
        took = f"{time.monotonic() - begun_s:.1f} s"
        progress(f"round {run.rounds.total()}: {name}, {before.member} → {after.member}, {took}")


def _wait_for_steps(stage: Stage, traffic: Traffic) -> None:
    """Until each client has had answers."""
    wanted = {client.name: client.steps + STEPS for client in traffic.clients}

    def behind() -> list[str]:
        return [client.name for client in traffic.clients if client.steps < wanted[client.name]]

    try:
        stage.wait(lambda: not behind(), "answers to all clients")
    except Failed as failed:
        raise Failed(f"{failed}; clients that have none: {behind()}") from failed


def _drain(stage: Stage, traffic: Traffic, run: Run) -> None:
    """Nothing more is sent; everything that is there comes."""
    traffic.stop(Sender, TransactedSender, Branches, StoreVerbs)
    stage.wait(lambda: traffic.has_ended(Sender, TransactedSender, Branches, StoreVerbs), "the senders' end")
    traffic.stop(Mover)
    stage.wait(lambda: traffic.has_ended(Mover), "the mover's end")
    traffic.stop(Receiver)
    try:
        stage.wait(lambda: traffic.has_ended(Receiver), "what was accepted")
    finally:
        run.recovered = sum(each.recovered for each in traffic.clients if isinstance(each, Branches))
        for account in run.accounts.values():
            account.finish()


def _end(stage: Stage, run: Run) -> None:
    """All members stop, the active one last, and their ledgers are whole and say the same."""
    active = stage.active()
    followers = [member for member in stage.members if member is not active]
    position = listed(active)[active.member]["position"]
    wait_for_followers(stage, active, *followers)
    for member in [*followers, active]:
        member.stop()
    run.folders = [member.folder for member in [active, *followers]]
    for folder in run.folders:
        found = verify(folder, bodies=True)
        run.problems += [f"{folder.name}: {each}" for each in found.of(Severity.ERROR)]
    of_active, *of_followers = (rows_of(FolderPlace(folder)) for folder in run.folders)
    for folder, rows in zip(run.folders[1:], of_followers, strict=True):
        last = rows.column("position")[-1].as_py() if rows.num_rows else 0
        if last < position:
            run.problems.append(f"{folder.name} ends with position {last}, and the active one had {position}")
        # The active one has ended in order behind what the others have read.
        if not of_active.slice(0, rows.num_rows).equals(rows):
            run.problems.append(f"{folder.name} has other events than {run.folders[0].name}")
