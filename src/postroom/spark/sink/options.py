"""The options of the sink, read and checked. Needs no Spark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from postroom.spark.broker.options import Broker, read_broker
from postroom.spark.data_source.option_names import SINK, unknown_option
from postroom.spark.data_source.option_reader import OptionReader
from postroom.spark.sink.errors import SinkOptionError

MAX_BRANCH_MESSAGES: Final = 50_000
"""Unless `maxMessagesPerBranch` says otherwise. The broker's own bound is `max_sink_branch_messages`."""
BROKER_TIMEOUT_S: Final = 60
"""Unless `brokerTimeoutS` says otherwise."""
MOST_BROKER_TIMEOUT_S: Final = 86_400
_APP: Final = re.compile(r"[\w.:/@+-]{1,200}")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options, checked; None or "": not given."""

    broker: Broker
    queue: str
    queue_column: str
    app: str
    version: int | None
    """Of a batch write."""
    above: str
    """The column of positions."""
    accept_duplicates: bool
    checkpoint: str
    """Its URI or folder; "" of a batch write outside of a query."""
    max_branch_messages: int
    broker_timeout_s: int
    """How long a broker that can't be reached is waited for."""


def read_stream_options(options: Mapping[str, str]) -> SinkOptions:
    """Of writeStream. Raises ``SinkOptionError``."""
    reader = _known(options)
    reader.refuse(("txnApp", "txnVersion"), "is for batch writes; a stream has the option app")
    app = reader.needed(
        "app",
        "the name by which the broker knows what was written, the same whenever this query is started again",
    ).strip()
    checkpoint = reader.text("checkpoint") or reader.text("checkpointLocation")
    if not checkpoint:
        raise SinkOptionError(
            'option "checkpointLocation" is missing: the sink reads from it which offsets a batch has. If'
            ' Spark\'s configuration says where it is, name that folder in the option "checkpoint"'
        )
    return _read(reader, app, None, checkpoint)


def read_batch_options(options: Mapping[str, str]) -> SinkOptions:
    """Of write. Raises ``SinkOptionError``."""
    reader = _known(options)
    reader.refuse(("app",), "is for streams; a batch write has txnApp and txnVersion")
    app, version = reader.text("txnApp"), reader.number("txnVersion", 0, (1 << 63) - 1)
    if bool(app) != (version is not None):
        raise SinkOptionError(
            'options "txnApp" and "txnVersion" belong together: a write of that version that is done is not'
            " done again; without both each write is done"
        )
    if not app:
        reader.refuse(("checkpoint", "abovePosition", "acceptDuplicates"), "is for batch writes with txnApp")
    return _read(reader, app, version, reader.text("checkpoint"))


def _known(options: Mapping[str, str]) -> OptionReader:
    wrong = unknown_option(options, SINK, "the sink postroom.messages")
    if wrong:
        raise SinkOptionError(wrong)
    return OptionReader(options, SinkOptionError)


def _read(reader: OptionReader, app: str, version: int | None, checkpoint: str) -> SinkOptions:
    if app and not _APP.fullmatch(app):
        raise SinkOptionError(f"the app {app!r} is up to 200 letters, digits and characters of _.:/@+-")
    read = SinkOptions(
        broker=read_broker(reader),
        queue=reader.text("queue"),
        queue_column=reader.text("queueColumn"),
        app=app,
        version=version,
        above=reader.text("abovePosition"),
        accept_duplicates=reader.flag("acceptDuplicates"),
        checkpoint=checkpoint,
        max_branch_messages=reader.number("maxMessagesPerBranch", 1, 1_000_000) or MAX_BRANCH_MESSAGES,
        broker_timeout_s=reader.number("brokerTimeoutS", 1, MOST_BROKER_TIMEOUT_S) or BROKER_TIMEOUT_S,
    )
    if not read.queue and not read.queue_column:
        raise SinkOptionError(
            'option "queue" is missing: where the messages go; or "queueColumn", the column that says it'
        )
    if read.above and read.accept_duplicates:
        raise SinkOptionError(
            'options "abovePosition" and "acceptDuplicates" exclude each other: one keeps duplicates out'
        )
    return read
