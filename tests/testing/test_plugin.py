"""The plugin in a pytest run of its own, as a project has it that installed Postroom."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.driver import ROOT, python_path

pytestmark = pytest.mark.sockets
PAGE = ROOT / "docs" / "howto" / "test-your-application.md"
PROGRAM = re.compile(r"^```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_S = 100


def run_pytest(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests that ``text`` has, with the plugin by an entry point as an installation has it."""
    (folder / "test_it.py").write_text(text)
    metadata = folder / "installed" / "postroom-0.1.0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: postroom\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[pytest11]\npostroom = postroom.testing.plugin\n")
    paths = (str(folder / "installed"), python_path())
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--strict-markers",
            *arguments,
            "test_it.py",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )


def test_the_entry_point_is_the_one_that_is_declared() -> None:
    assert (
        '[project.entry-points.pytest11]\npostroom = "postroom.testing.plugin"\n'
        in (ROOT / "pyproject.toml").read_text()
    )


def test_the_fixture_is_there_with_nothing_to_configure(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        """
import pytest
from proton import Message
from proton.utils import BlockingConnection

def send(broker, address):
    connection = BlockingConnection(broker.url, timeout=20)
    connection.create_sender(address).send(Message(body="hello", durable=True))
    connection.close()

def test_one(postroom_broker):
    send(postroom_broker, "orders")
    assert postroom_broker.queue("orders").current == 1

def test_each_test_has_its_own(postroom_broker):
    assert postroom_broker.queues == ["postroom.dead"]

@pytest.mark.postroom(config={"queue": [{"name": "orders", "max_messages": 7}]})
def test_the_marker_says_what_it_is_like(postroom_broker):
    assert postroom_broker.queues == ["orders", "postroom.dead"]

def test_several(postroom_broker, postroom_broker_factory):
    other = postroom_broker_factory(config={"container_id": "QM2"})
    send(other, "orders")
    assert (postroom_broker.queues, other.queues) == (["postroom.dead"], ["orders", "postroom.dead"])
""",
        "-W",
        "error",
    )
    assert re.search(r"\b4 passed\b", done.stdout), done.stdout + done.stderr


def test_a_test_that_fails_shows_its_queues(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        """
import pytest

def test_fails(postroom_broker):
    postroom_broker.create_queue("orders")
    assert postroom_broker.queue("orders").current == 1

def test_fails_without_a_broker():
    assert False

@pytest.mark.postroom({"queue": []})
def test_is_marked_wrongly(postroom_broker):
    pass
""",
    )
    assert done.returncode == 1
    assert re.search(r"-+ postroom amqp://127\.0\.0\.1:\d+ -+\norders: 0 current, 0 pending\n", done.stdout)
    assert len(re.findall(r"^-+ postroom ", done.stdout, re.MULTILINE)) == 1
    assert "the marker postroom takes keyword arguments only" in done.stdout
    assert re.search(r"\b2 failed, 1 error\b", done.stdout)


def test_a_run_that_uses_no_broker_loads_none(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        """
import sys

def test_nothing_is_loaded():
    loaded = {name for name in sys.modules if name.startswith("postroom")}
    assert loaded == {"postroom", "postroom.testing", "postroom.testing.plugin"}
    assert "numpy" not in sys.modules and "msgspec" not in sys.modules
""",
    )
    assert done.returncode == 0, done.stdout
    record = run_pytest(tmp_path, "", "--markers")
    assert "@pytest.mark.postroom(config=None" in record.stdout


def test_what_the_page_shows_works(tmp_path: Path) -> None:
    programs = PROGRAM.findall(PAGE.read_text())
    done = run_pytest(tmp_path, "\n\n".join(programs))
    assert re.search(rf"\b{len(programs)} passed\b", done.stdout), done.stdout + done.stderr
