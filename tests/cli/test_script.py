"""The command as a file, which is how spark-submit takes it."""

import subprocess
import sys

import postroom.__main__


def test_the_command_runs_as_a_file() -> None:
    command = [sys.executable, postroom.__main__.__file__, "pipeline", "run", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "--continuous" in done.stdout
