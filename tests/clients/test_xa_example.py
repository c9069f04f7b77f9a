"""The program on the page about XA on the wire does what it says, against a real broker."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.driver import HERE, ROOT, make_ready

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

PAGE = ROOT / "docs" / "reference" / "xa.md"
PROGRAM = re.compile(
    r"^```javascript\n(?P<text>.*?)^```\n\n^```text\n(?P<output>.*?)^```", re.MULTILINE | re.DOTALL
)
RUN_S = 60


def test_a_branch_in_javascript_consumes_produces_prepares_recovers_and_commits(
    own_broker: BrokerProcess,
) -> None:
    make_ready("rhea")
    program = PROGRAM.search(PAGE.read_text())
    assert program is not None
    done = subprocess.run(
        ["node", "-e", program["text"].replace("5672", str(own_broker.port))],
        env={**os.environ, "NODE_PATH": str(HERE / "rhea" / "node_modules")},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert (done.stdout, done.returncode) == (program["output"], 0), done.stderr
