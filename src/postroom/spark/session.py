"""A local Spark session with the settings that the jobs need; on a cluster, spark-submit brings its own."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from postroom.ledger.errors import LedgerError

DRIVER_MEMORY: Final = "1g"
LOOPBACK: Final = "127.0.0.1"

QUIET: Final = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
"""Spark's own log from its first line on: errors only."""


LEAST_JAVA: Final = 17
JAVA_TIMEOUT_S: Final = 20
"""So long it may take to tell its version."""
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL: Final = "install one (openjdk-17-jre-headless), or set JAVA_HOME to it"

LONG_JOB: Final = "-XX:+UseParallelGC -Darrow.enable_unsafe_memory_access=true"
"""For a JVM that moves many rows: the collector with the least work beside a task's own, and no check of
bounds at each value that comes from Python."""

SOCKET_BUFFER_BYTES: Final = str(1 << 17)
"""Between the JVM and Python."""

SHORT_JOB: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds: its best compiler would take longer than it saves."""


class JavaUnusable(LedgerError):
    """There is no Java, or none that Spark runs on."""


def require_java() -> None:
    """Whether Spark will find a Java that it runs on: that of ``JAVA_HOME``, else the one in ``PATH``.

    Its own words would be a dozen lines that don't say it. Raises ``JavaUnusable``.
    """
    home = os.environ.get("JAVA_HOME", "")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "no java is in PATH"
        raise JavaUnusable(f"Spark needs Java {LEAST_JAVA} or newer, and {where}: {_INSTALL}")
    version = _version_of(Path(found))
    if version < LEAST_JAVA:
        what = f"is Java {version}" if version else "doesn't tell its version"
        raise JavaUnusable(f"Spark needs Java {LEAST_JAVA} or newer, and {found} {what}: {_INSTALL}")


def _version_of(java: Path) -> int:
    """The main version of a Java; 0 if it doesn't tell one."""
    release = java.resolve().parent.parent / "release"
    found = None
    with suppress(OSError):
        found = _RELEASE.search(release.read_text("utf-8", "replace"))
    if found is None:
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [java, "-version"], capture_output=True, text=True, errors="replace", timeout=JAVA_TIMEOUT_S
            )
            found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else 0


def local_session(name: str, cores: int, scratch: Path, is_short: bool = False) -> SparkSession:
    """A session on this machine, with its temporary files in `scratch`; `is_short`: for few rows. Raises
    ``JavaUnusable``."""
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the interpreter that has this package
    os.environ.setdefault(
        "SPARK_LOCAL_IP", LOOPBACK
    )  # else it asks for the machine's name, which may lead nowhere
    quiet = scratch / "log4j2.properties"
    quiet.write_text(QUIET)
    java_options = f"-Dlog4j2.configurationFile={quiet} {SHORT_JOB if is_short else LONG_JOB}"
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", DRIVER_MEMORY)
        .config("spark.driver.bindAddress", LOOPBACK)
        .config("spark.driver.host", LOOPBACK)
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")  # the place of each call, for errors
        .config("spark.sql.dataFrameQueryContext.enabled", "false")
        .config("spark.buffer.size", SOCKET_BUFFER_BYTES)
        .config("spark.sql.shuffle.partitions", str(cores if is_short else 2 * cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    if is_short:  # planning as it goes and compiling each plan pay off over many rows only
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.codegen.wholeStage", "false")
    return session
