"""A standalone cluster on this machine, its two workers on addresses of their own: only between hosts does
Spark run a slow task a second time."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

MASTER_HOST: Final = "127.0.0.1"
WORKER_HOSTS: Final = ("127.0.0.2", "127.0.0.3")
STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = "Successfully registered with master"
START_S: Final = 90.0
POLL_S: Final = 0.1
DEPLOY: Final = "org.apache.spark.deploy"


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The master's URL."""
    folder.mkdir()
    with ExitStack() as stack:
        master = stack.enter_context(
            _daemon(folder, "master", f"{DEPLOY}.master.Master", "--host", MASTER_HOST, "--port", "0")
        )
        url = _wait_for(master, STARTED)
        for host in WORKER_HOSTS:
            words = ("--host", host, "--cores", "1", "--memory", "900m", "--work-dir", str(folder / host))
            worker = stack.enter_context(
                _daemon(folder, f"worker-{host}", f"{DEPLOY}.worker.Worker", *words, url)
            )
            _wait_for(worker, re.compile(f"({REGISTERED})"))
        yield url


@contextmanager
def _daemon(folder: Path, name: str, kind: str, *words: str) -> Iterator[Path]:
    """A Spark daemon; the result is its log."""
    home = Path(pyspark.__file__).parent
    quiet = folder / "log4j2.properties"
    quiet.write_text(LOGGING)
    log_file = folder / f"{name}.log"
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": MASTER_HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-XX:+UseSerialGC -Dlog4j2.configurationFile={quiet}",
    }
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), kind, "--webui-port", "0", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log_file
    finally:
        process.terminate()
        process.wait()


LOGGING: Final = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


def _wait_for(log: Path, words: re.Pattern[str]) -> str:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        found = words.search(log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(POLL_S)
    raise RuntimeError(f"{log.name}: nothing like {words.pattern!r}:\n{log.read_text()[-2000:]}")
