"""The Spark job of the demo: readings are consumed from one queue, judged, and sent to another, exactly once.

python -m demo.enrich BROKER-URL LEDGER-FOLDER CHECKPOINT
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql.functions import col, when

from postroom.spark.session import local_session

FORMAT: Final = "postroom.messages"
SUBSCRIPTION: Final = "judging"
TARGET: Final = "readings.judged"
APP: Final = "judging"
ALARM_FROM: Final = 90


def main(broker: str, ledger: str, checkpoint: str) -> None:
    """Work off what is on the queue, and end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        spark = local_session("judging", 2, Path(scratch), is_short=True)
        readings = (
            spark.readStream.format(FORMAT)
            .options(mode="consume", broker=broker, subscription=SUBSCRIPTION, confirm="spark")
            .load(ledger)
        )
        reading = col("text").cast("int") % 100
        judged = readings.withColumn("subject", when(reading >= ALARM_FROM, "alarm").otherwise("normal"))
        writer = judged.writeStream.format(FORMAT).options(broker=broker, queue=TARGET, app=APP)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
