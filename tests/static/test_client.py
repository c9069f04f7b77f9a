"""Applications that use the client pass ``mypy --strict``: the installed package says that it is typed, and
hands on every name on purpose. The client itself passes it as on each system that it runs on, so that calls
which one of them lacks are found.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import postroom
from postroom import client
from postroom.client import aio, sync

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(__file__).with_name("typed_program.py")


def mypy(folder: Path, cache: Path, *arguments: str) -> str:
    """What it finds; "" if nothing."""
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "--no-error-summary", *arguments]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment in which the package lies as an installation leaves it."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder)
    source = Path(postroom.__file__).parent
    (packages,) = (folder / "lib").glob("python*/site-packages")
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
    shutil.copytree(source, packages / "postroom", ignore=leave_out)
    return folder / "bin" / "python"


def test_an_application_is_typed(installed: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("mypy-application")
    program = shutil.copy(PROGRAM, tmp_path / "program.py")
    names = tmp_path / "names.py"
    names.write_text(
        "".join(
            f"from {room.__name__} import {name} as {name}_of_{room.__name__.rpartition('.')[2]}\n"
            for room in (client, aio, sync)
            for name in room.__all__
        )
    )
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from postroom.client import ConnectionFactory\nConnectionFactory(5672)\n")
    found = mypy(
        tmp_path,
        cache,
        "--strict",
        "--python-executable",
        str(installed),
        str(program),
        str(names),
        str(wrong),
    )
    assert found.splitlines() == [
        'wrong.py:2: error: Argument 1 to "ConnectionFactory" has incompatible type "int"; '
        'expected "str"  [arg-type]'
    ]


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_the_client_calls_nothing_that_a_system_lacks(system: str, pytestconfig: pytest.Config) -> None:
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir(f"mypy-{system}")
    assert mypy(ROOT, cache, "--platform", system, "src/postroom/client", "src/postroom/app") == ""
