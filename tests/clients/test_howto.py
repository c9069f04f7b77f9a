"""The programs of how-to pages do what they say: each is cut out and run against a real broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.broker import USUAL, BrokerProcess
from tests.clients.driver import HERE, ROOT, make_ready, python_path

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
FOLDER = ROOT / "docs" / "howto"
PAGE = FOLDER / "connect-clients.md"
LISTENERS = FOLDER / "listeners-and-acknowledgement.md"
FAILOVER = FOLDER / "survive-a-broker-restart.md"
PROGRAM = re.compile(
    r"^##? (?P<title>[^\n]+)\n(?:(?!^## ).)*?^```(?P<language>python|javascript|java)\n(?P<text>.*?)^```$"
    r"(\n\n^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
PROGRAMS = {
    found["title"]: found
    for page in (PAGE, LISTENERS, FAILOVER)
    for found in PROGRAM.finditer(page.read_text())
}
OUTPUT = "waiting: hello\nreceived: hello\n"
"""Of a program whose output the page doesn't show."""
RUN_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """As a reader of the page has it."""
    with BrokerProcess(tmp_path_factory.mktemp("howto") / "data", USUAL) as process:
        yield process


def command_for(language: str, text: str, folder: Path) -> list[str]:
    """Write the program down and say how to run it."""
    if language == "python":
        return [sys.executable, "-c", text]
    if language == "javascript":
        make_ready("rhea")
        return ["node", "-e", text]
    make_ready("qpid_jms")
    name = re.search(r"^public class (\w+)", text, re.MULTILINE)
    assert name is not None
    source = folder / f"{name[1]}.java"
    source.write_text(text)
    return ["java", "-cp", f"{HERE}/qpid-jms/target/lib/*", str(source)]


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_of_the_page_works(title: str, broker: BrokerProcess, queue: str, tmp_path: Path) -> None:
    program = PROGRAMS[title]
    text = (
        program["text"]
        .replace("5672", str(broker.port))
        .replace("'greetings'", f"'{queue}'")
        .replace('"greetings"', f'"{queue}"')
    )
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(),
        "NODE_PATH": str(HERE / "rhea" / "node_modules"),
    }
    done = subprocess.run(
        command_for(program["language"], text, tmp_path),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.stdout == (program["output"] or OUTPUT), done.stderr


def test_the_page_has_a_program_for_each_client() -> None:
    languages = [program["language"] for program in PROGRAMS.values()]
    assert languages == ["python", "python", "javascript", "java", "java", "python", "python", "python"]
