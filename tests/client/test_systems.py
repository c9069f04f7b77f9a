"""The client runs on Linux, macOS and Windows, and loads nothing that only a broker needs.

There is one system here: of the others, what they lack is taken away in a process of its own
(`tests.client.other_system`).
"""

import json
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.client.other_system import NOT_INSTALLED, SYSTEMS
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
    ours, others = loaded_with(module)
    assert rooms(ours) == ROOMS
    assert not others & {*NOT_INSTALLED, "click", "psycopg"}


def test_applications_load_the_client_and_what_reads_bodies() -> None:
    ours, others = loaded_with("postroom.app")
    assert rooms(ours) == {*ROOMS, "postroom.app"}
    assert others & {*NOT_INSTALLED, "click", "psycopg", "pydantic"} == {"msgspec"}


def loaded_with(module: str) -> tuple[list[str], set[str]]:
    """What is loaded with it: Postroom's modules, and the packages of others."""
    program = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    loaded = json.loads(in_a_process("-c", program))
    ours = [name for name in loaded if name.startswith("postroom.")]
    return ours, {name.partition(".")[0] for name in loaded}


@pytest.mark.sockets
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_client_works_where_much_is_missing(system: str, tmp_path: Path) -> None:
    with BrokerThread() as broker:
        output = in_a_process("-m", "tests.client.other_system", system, broker.url, str(tmp_path))
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


@pytest.mark.parametrize(
    ("system", "left_out"), [("linux", set()), ("darwin", {"uvloop"}), ("win32", {"uvloop", "isal"})]
)
def test_what_has_no_wheel_for_a_system_is_not_installed_there(system: str, left_out: set[str]) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [Requirement(text) for text in declared["project"]["dependencies"]]
    wanted += [Requirement(text) for text in declared["build-system"]["requires"]]
    there = {
        each.name for each in wanted if each.marker is None or each.marker.evaluate({"sys_platform": system})
    }
    assert {"click", "librt", "setuptools"} <= there
    assert not there & left_out
    assert ("mypy" in there) == (system == "linux")


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_elsewhere_nothing_is_compiled(
    system: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = runpy.run_path(str(ROOT / "setup.py"), run_name="sources")
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(sys, "argv", ["setup.py", "build_ext"])
    monkeypatch.delenv("POSTROOM_COMPILE", raising=False)
    assert build["extensions"]() == []
    assert "no Linux" in capsys.readouterr().err
    monkeypatch.setenv("POSTROOM_COMPILE", "1")
    with pytest.raises(SystemExit, match="needs Linux"):
        build["extensions"]()
