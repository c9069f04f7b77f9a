"""The faults: each is done to the stage, waited for, and mended; afterwards there is an active member."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from click.testing import CliRunner

from postroom.cli import main
from postroom.server.exits import Exit
from postroom.server.status import NoStatus, read_status
from tests.replication.run.relay import Relays
from tests.replication.run.stage import MemberProcess, Stage

SLOW_S: Final = 0.05
SLOW_FOR_S: Final = 3.0
NODE_AWAY_S: Final = 12.0
"""Longer than the other nodes need to elect a leader."""
FULL_BYTES: Final = 4096
"""A member whose files may not be longer has a full disk."""
LIST_S: Final = 0.5
"""Between two looks at the list of members, of which each is a connection."""

Act = Callable[[Stage, random.Random], None]


def kill_active(stage: Stage, chance: random.Random) -> None:
    """SIGKILL of the active member: another goes on."""
    active = stage.active()
    active.kill()
    stage.active(active)
    active.launch()


def pause_active(stage: Stage, chance: random.Random) -> None:
    """SIGSTOP of the active member until another is active: woken, it ends by itself."""
    active = stage.active()
    active.pause()
    stage.active(active)
    active.wake()
    stage.ended(active, Exit.NOT_ACTIVE)
    active.launch()


def hand_over(stage: Stage, chance: random.Random) -> None:
    """`postroom member hand-over`: the active one ends in order."""
    active = stage.active()
    to = chance.choice(_others(stage, active))
    wait_for_followers(stage, active, to)
    outcome = CliRunner().invoke(main, ["member", "hand-over", to.member, "--url", active.url])
    if outcome.exit_code and active.listens():
        stage.problems.append(f"hand-over from {active.member} to {to.member}: {outcome.output}")
    # On a machine with much else to do another may have claimed just before.
    stage.ended(active, Exit.STOPPED, Exit.NOT_ACTIVE)
    stage.active(active)
    active.launch()


def kill_follower(stage: Stage, chance: random.Random) -> None:
    """SIGKILL of a follower: nobody notices."""
    follower = chance.choice(_others(stage, stage.active()))
    follower.kill()
    follower.launch()


def lose_folder(stage: Stage, chance: random.Random) -> None:
    """A follower's folder is gone: it begins anew with the log."""
    active = stage.active()
    follower = chance.choice(_others(stage, active))
    follower.kill()
    shutil.rmtree(follower.folder)
    follower.launch()
    wait_for_followers(stage, active, follower)


def kill_node(stage: Stage, chance: random.Random) -> None:
    """One node of the engine: a pause, if it was the stream's leader."""
    node = chance.choice(stage.cluster.nodes)
    node.kill()
    stage.active()
    node.start()
    stage.cluster.wait()


def kill_active_and_node(stage: Stage, chance: random.Random) -> None:
    """Both at once, as when they share a machine."""
    active, node = stage.active(), chance.choice(stage.cluster.nodes)
    active.kill()
    node.kill()
    stage.active(active)
    node.start()
    stage.cluster.wait()
    active.launch()


def lose_majority(stage: Stage, chance: random.Random) -> None:
    """Two nodes of the engine: the active member ends, nobody else claims until they are back."""
    active = stage.active()
    nodes = chance.sample(stage.cluster.nodes, 2)
    for node in nodes:
        node.kill()
    stage.ended(active, Exit.NOT_ACTIVE)
    active.launch()
    if any(member.listens() for member in stage.members):
        stage.problems.append("a member is active while a majority of the engine is gone")
    for node in nodes:
        node.start()
    stage.cluster.wait()
    stage.active()


def pause_node(stage: Stage, chance: random.Random) -> None:
    """A node that answers nothing and closes nothing, until a member is active without it."""
    node = chance.choice(stage.cluster.nodes)
    node.signal(signal.SIGSTOP)
    time.sleep(NODE_AWAY_S)  # the length of the fault, not a wait for anything
    stage.active()
    node.signal(signal.SIGCONT)
    stage.cluster.wait()


def slow_engine(stage: Stage, chance: random.Random) -> None:
    """Every piece between members and nodes takes its time, for a while."""
    assert isinstance(stage.ways, Relays)
    stage.ways.slow(SLOW_S)
    time.sleep(SLOW_FOR_S)  # the length of the fault, not a wait for anything
    stage.active()
    stage.ways.slow(0.0)


def cut_active(stage: Stage, chance: random.Random) -> None:
    """The active member loses the engine and keeps its clients: it acknowledges nothing, and ends. What it
    had sent to the engine arrives late, and counts for nobody."""
    active = stage.active()
    stage.ways.cut(active.member)
    stage.active(active)
    stage.ended(active, Exit.NOT_ACTIVE)
    stage.ways.mend(active.member)
    active.launch()


def cut_active_for_a_while(stage: Stage, chance: random.Random) -> None:
    """The same, and the engine is back before the active member has given up: it is refused."""
    active = stage.active()
    stage.ways.cut(active.member)
    stage.active(active)
    stage.ways.mend(active.member)
    stage.ended(active, Exit.NOT_ACTIVE)
    active.launch()


def cut_follower(stage: Stage, chance: random.Random) -> None:
    """A follower loses the engine, and has it again after a take-over by another: it follows on."""
    active = stage.active()
    follower = chance.choice(_others(stage, active))
    stage.ways.cut(follower.member)
    active.kill()
    stage.active(active, follower)
    stage.ways.mend(follower.member)
    active.launch()


def cut_node(stage: Stage, chance: random.Random) -> None:
    """A node of the engine is cut from the other nodes and all members, and lives: a pause, if it was the
    stream's leader. What it has taken alone is nobody's."""
    assert stage.namespaces is not None
    node = chance.choice(stage.cluster.nodes)
    stage.namespaces.cut_node(node.name)
    time.sleep(NODE_AWAY_S)  # the length of the fault, not a wait for anything
    stage.active()
    stage.namespaces.mend_node(node.name)
    stage.cluster.wait()


def fill_disk_of_active(stage: Stage, chance: random.Random) -> None:
    """The active member's folder can't be written: it ends, another goes on."""
    active = stage.active()
    active.limit_files(FULL_BYTES)
    stage.ended(active, Exit.LEDGER_FAILED, Exit.NOT_ACTIVE)
    stage.active(active)
    active.launch()


def fill_disk_of_follower(stage: Stage, chance: random.Random) -> None:
    """A follower's folder can't be written: it ends, nobody notices."""
    active = stage.active()
    follower = chance.choice(_others(stage, active))
    follower.limit_files(FULL_BYTES)
    stage.ended(follower, Exit.LEDGER_REFUSED, Exit.LEDGER_FAILED)
    follower.launch()


ACTS: Final[dict[str, tuple[Act, int]]] = {
    "kill active": (kill_active, 30),
    "pause active": (pause_active, 20),
    "hand over": (hand_over, 15),
    "cut active for a while": (cut_active_for_a_while, 8),
    "cut follower": (cut_follower, 6),
    "kill active and node": (kill_active_and_node, 5),
    "full disk of active": (fill_disk_of_active, 5),
    "cut active": (cut_active, 2),
    "kill follower": (kill_follower, 4),
    "lose folder": (lose_folder, 3),
    "kill node": (kill_node, 3),
    "pause node": (pause_node, 2),
    "full disk of follower": (fill_disk_of_follower, 2),
    "slow engine": (slow_engine, 2),
    "lose majority": (lose_majority, 1),
}
"""By name, with the weight of each in a run of many."""
IN_NAMESPACES: Final[dict[str, tuple[Act, int]]] = {
    **{name: act for name, act in ACTS.items() if name != "slow engine"},
    "cut node": (cut_node, 4),
}
"""Those that can be played there."""


def _others(stage: Stage, active: MemberProcess) -> list[MemberProcess]:
    return [member for member in stage.members if member is not active]


def listed(active: MemberProcess) -> dict[str, dict[str, Any]]:
    """The members as the active one lists them; nobody while it can't be asked."""
    outcome = CliRunner().invoke(main, ["member", "list", "--json", "--url", active.url])
    if outcome.exit_code:
        return {}
    rows = (json.loads(line) for line in outcome.output.splitlines())
    return {row["name"]: row for row in rows}


def wait_for_followers(stage: Stage, active: MemberProcess, *members: MemberProcess) -> None:
    """Until each has said that it follows since now, and has read what was there now. The active one lists
    how far its folder is; how far the log goes is in its status."""
    begun_us, last = time.time_ns() // 1000, 0

    def do_follow() -> bool:
        nonlocal last
        # On a machine with much else to do another may have claimed.
        rows = listed(next((member for member in stage.members if member.listens()), active))
        last = last or max(_read_through(member) for member in stage.members)
        found = [rows.get(member.member, {}) for member in members]
        return all(
            row.get("state") == "follower" and row["time_us"] > begun_us and row["sequence"] >= last
            for row in found
        )

    stage.wait(do_follow, f"that {[member.member for member in members]} follow", LIST_S)


def _read_through(member: MemberProcess) -> int:
    """The last entry of the log that it knows; 0 for one that can't be asked."""
    try:
        found: int = read_status(member.folder).get("sequence", 0)
    except NoStatus:
        return 0
    return found
