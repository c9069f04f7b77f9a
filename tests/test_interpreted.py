"""A tenth of the pure tests on the interpreted source, beside all of them on the compiled one: the same
source runs both ways, and what differs would differ in many places."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALL_PASSED = 0


@pytest.mark.timeout(900)
def test_a_tenth_of_the_pure_tests_passes_interpreted() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "--pure", "--interpreted-tenth", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == ALL_PASSED, done.stdout + done.stderr
