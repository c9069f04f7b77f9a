"""Messages of each client as rows."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from postroom.spark.messages.schema import MESSAGES_SCHEMA
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.slices import plan
from postroom.spark.tap.options import read_tap_options
from postroom.spark.tap.stream import rows_of
from tests.clients.broker import BrokerProcess
from tests.clients.cases import Case
from tests.clients.driver import Client

WAIT_S = 20.0


def rows_in(broker: BrokerProcess, queue: str, count: int) -> list[dict[str, Any]]:
    """The rows of a queue, once there are so many: what is durable is told to readers a moment later."""
    place = FolderPlace(broker.folder)
    options = read_tap_options({"path": str(broker.folder), "queues": queue})
    deadline = time.monotonic() + WAIT_S
    while True:
        look = place.look()
        slices = plan(place, look, 1, look.durable_through, 1 << 20)
        batches = [batch for piece in slices for batch in rows_of(piece, MESSAGES_SCHEMA, options)]
        rows = pa.Table.from_batches(batches, MESSAGES_SCHEMA).to_pylist()
        if len(rows) >= count:
            assert [row["_corrupt"] for row in rows] == [None] * count
            return rows
        assert time.monotonic() < deadline, f"{len(rows)} rows of {count}"


def sent_by(client: Client, cases: list[Case]) -> list[Case]:
    return [case for case in cases if client.name not in case.not_sent_by]
