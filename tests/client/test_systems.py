"""The client runs on Linux, macOS and Windows, and loads nothing that only a broker needs.

There is one system here: of the others, what they lack is taken away in a process of its own
(`tests.client.elsewhere`).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.elsewhere import NOT_INSTALLED, SYSTEMS
from tests.server.harness import BrokerThread

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = {"postroom.amqp", "postroom.model", "postroom.client"}
"""What the client is made of."""


def in_a_process(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def rooms(modules: list[str]) -> set[str]:
    return {".".join(name.split(".")[:2]) for name in modules}


@pytest.mark.parametrize("module", ["postroom.client", "postroom.client.aio", "postroom.client.sync"])
def test_the_client_loads_nothing_of_the_broker(module: str) -> None:
    program = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    loaded = json.loads(in_a_process("-c", program))
    ours = [name for name in loaded if name.startswith("postroom.")]
    assert rooms(ours) == ROOMS
    assert not {name.partition(".")[0] for name in loaded} & {*NOT_INSTALLED, "click", "psycopg"}


@pytest.mark.sockets
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_client_works_where_much_is_missing(system: str, tmp_path: Path) -> None:
    with BrokerThread() as broker:
        output = in_a_process("-m", "tests.client.elsewhere", system, broker.url, str(tmp_path))
    told: dict[str, Any] = json.loads(output)
    assert told["blocking"] == ["hello", str(b"\r\n\n\x1a")]
    assert told["asyncio"] == ["a", "b"]
    assert told["two_phase"]["pairs"] == 4 and told["two_phase"]["recovered"] == 0
    assert "in use by another transaction manager" in told["two_phase"]["refused"]
    assert told["decided"] == [0, 1, 2]
    assert rooms(told["ours"]) == ROOMS and not set(told["loaded"]) & set(NOT_INSTALLED)
    syncs = told["syncs"]
    if system == "windows":
        # Each of the six openings writes the file anew: a sync, then the move. Each decision is a sync.
        assert syncs.count("move") == 6 and "move" not in syncs[:1]
        assert all(syncs[at - 1] == "fsync" for at, each in enumerate(syncs) if each == "move")
        assert syncs.count("fsync") >= 6 + 3 + 2
    elif system == "mac":
        assert set(syncs) == {"full"} and len(syncs) >= 6 * 2 + 3 + 2
    elif system == "mac-network-disk":
        assert set(syncs) == {"fsync"} and len(syncs) >= 6 * 2 + 3 + 2
