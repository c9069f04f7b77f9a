"""Tries an installed Postroom: imports every module that the source has, then serves, puts, gets and stops.

``ENV/bin/python -I tools/check_installed.py compiled|interpreted [EXTRA…]`` runs in the environment that it
judges, which has Postroom with these extras and nothing else: it uses only the standard library.
"""

import importlib
import importlib.util
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
COMMAND = Path(sys.executable).parent / "postroom"
PATIENCE_S = 60
LOADED_BY = ("pytest",)
"""What imports modules of ours itself, and is no requirement."""


IMPORTED_AS = {
    "confluent-kafka": "confluent_kafka",
    "nats-py": "nats",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-proto": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "pyjwt": "jwt",
}
"""Packages that are imported by another name than they are installed by."""


class Fault(Exception):
    """What is wrong with the installation."""


def brought_by_extras() -> dict[str, set[str]]:
    """The packages that each extra names, by the names that they are imported by."""
    brought: dict[str, set[str]] = {}
    for requirement in metadata.requires("postroom") or []:
        extra = re.search(r"""extra == ['"](\w+)['"]""", requirement)
        name = re.match(r"[\w.-]+", requirement)
        if extra and name:
            brought.setdefault(extra[1], set()).add(IMPORTED_AS.get(name[0], name[0]))
    return brought


def source_modules() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_all(extras: list[str]) -> str:
    """Every module, but those that need what an absent extra brings; says how many."""
    brought = brought_by_extras()
    absent = {name for extra, names in brought.items() if extra not in extras for name in names}
    absent -= {name for extra in extras for name in brought[extra]}
    absent |= {name for name in LOADED_BY if importlib.util.find_spec(name) is None}
    imported, left_out, faults = 0, 0, []
    for name in [*(name for extra in extras for name in sorted(brought[extra])), *source_modules()]:
        try:
            importlib.import_module(name)
            imported += 1
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in absent:
                left_out += 1
            else:
                faults.append(f"{name}: {error}")
    if faults:
        raise Fault("what is installed can't be imported whole:\n  " + "\n  ".join(faults))
    return f"{imported} modules" + (f" ({left_out} more need an extra)" if left_out else "")


def check_place() -> None:
    """Nothing is judged but what this environment has."""
    file = importlib.import_module("postroom").__file__
    if file is None or not Path(file).is_relative_to(sys.prefix):
        raise Fault(f"postroom came from {file}, not from {sys.prefix}")


def postroom(*arguments: str) -> str:
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode:
        raise Fault(f"postroom {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def round_trip(folder: Path) -> str:
    """A message through a broker that is started for it and stopped; returns the build that its log names."""
    log = folder / "log"
    arguments = [str(COMMAND), "serve", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    with (
        log.open("w") as errors,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True) as broker,
    ):
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()  # the end of the file where it could not start
            if not ready.startswith("listening on "):
                raise Fault(f"postroom serve did not start: {log.read_text().strip()}")
            exchange(ready.split()[-1])
        finally:
            broker.send_signal(signal.SIGTERM)
            code = broker.wait(PATIENCE_S)
    if code:
        raise Fault(f"postroom serve ended with {code}: {log.read_text().strip()}")
    build = re.search(r"\bbuild=(\w+)", log.read_text())
    return build[1] if build else "not told"


def exchange(url: str) -> None:
    body = "from an installed Postroom"
    postroom("queue", "create", "parcels", "--url", url)
    postroom("put", "parcels", body, "--url", url)
    got = postroom("get", "parcels", "--url", url)
    if got.strip() != body:
        raise Fault(f"put {body!r}, got {got!r}")


def in_memory() -> None:
    """The same through a broker for tests; pytest finds its fixtures."""
    plugins = {found.value for found in metadata.entry_points(group="pytest11", name="postroom")}
    if plugins != {"postroom.testing.plugin"}:
        raise Fault(f"pytest is told to load {plugins or 'nothing'}")
    testing = importlib.import_module("postroom.testing")
    with testing.Broker() as broker:
        exchange(broker.url)
        if broker.queue("parcels").consumed != 1:
            raise Fault("the broker for tests has not counted what was got from it")


def main(wanted: str, extras: list[str]) -> int:
    try:
        check_place()
        modules = import_all(extras)
        with tempfile.TemporaryDirectory() as folder:
            build = round_trip(Path(folder))
        in_memory()
        if build != wanted:
            raise Fault(f"the build should be {wanted}, it is {build}")
    except Fault as fault:
        print(f"postroom on Python {platform.python_version()}: {fault}", file=sys.stderr)
        return 1
    text = f"Python {platform.python_version()}" + "".join(f" with {extra}" for extra in extras)
    print(f"{text}, build={build}: {modules} imported; served, put, got, stopped; in memory, too")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
