"""A local Spark session with the settings that the jobs need; on a cluster, spark-submit brings its own."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

DRIVER_MEMORY = "1g"


def local_session(name: str, cores: int, scratch: Path) -> SparkSession:
    """A session on this machine, with its temporary files in `scratch`. Takes about five seconds."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the interpreter that has this package
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", DRIVER_MEMORY)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(2 * cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
