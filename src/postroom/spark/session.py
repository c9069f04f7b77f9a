"""A local Spark session with the settings that the jobs need; on a cluster, spark-submit brings its own."""

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

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


LONG_JOB: Final = "-XX:+UseParallelGC -Darrow.enable_unsafe_memory_access=true"
"""For a JVM that moves many rows: the collector with the least work beside a task's own, and no check of
bounds at each value that comes from Python."""

SOCKET_BUFFER_BYTES: Final = str(1 << 17)
"""Between the JVM and Python."""

SHORT_JOB: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds: its best compiler would take longer than it saves."""


def local_session(name: str, cores: int, scratch: Path, is_short: bool = False) -> SparkSession:
    """A session on this machine, with its temporary files in `scratch`; `is_short`: for few rows."""
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
