"""The sink's options: what is missing or has no meaning is said before any task starts."""

import pytest
from pyspark.sql.types import StructType

from postroom.spark.broker.options import read_broker
from postroom.spark.data_source.option_reader import OptionReader
from postroom.spark.sink.errors import SinkOptionError
from postroom.spark.sink.options import (
    BROKER_TIMEOUT_S,
    MAX_BRANCH_MESSAGES,
    read_batch_options,
    read_stream_options,
)
from postroom.spark.sink.writers import BatchSink, StreamSink

STREAM = {"broker": "amqp://u:secret@127.0.0.1:5672", "queue": "q", "app": "a", "checkpointLocation": "/c"}
BATCH = {"broker": "amqps://127.0.0.1", "queue": "q"}
SCHEMA = StructType().add("text", "string").add("position", "long").add("where", "string").add("x", "double")


def test_what_is_said_and_what_is_not() -> None:
    read = read_stream_options(
        STREAM | {"ABOVEPOSITION": " position ", "checkpoint": "s3://b/c", "tlsCaFile": "/ca.pem"}
    )
    assert (read.broker.url, read.queue, read.app, read.above) == (STREAM["broker"], "q", "a", "position")
    assert read.checkpoint == "s3://b/c"
    assert read.broker.tls is not None
    assert read.broker.tls.ca_file == "/ca.pem"
    assert (read.max_branch_messages, read.broker_timeout_s) == (MAX_BRANCH_MESSAGES, BROKER_TIMEOUT_S)
    batch = read_batch_options(BATCH | {"txnApp": "nightly", "txnVersion": "0", "queueColumn": "where"})
    assert (batch.app, batch.version, batch.queue_column, batch.broker.tls) == ("nightly", 0, "where", None)
    assert read_batch_options(BATCH).app == ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"broker": ""}, 'option "broker" is missing'),
        ({"broker": "http://u:secret@x"}, 'option "broker": scheme'),
        ({"queue": ""}, 'option "queue" is missing'),
        ({"app": ""}, 'option "app" is missing'),
        ({"app": "a b"}, "the app 'a b' is up to 200"),
        ({"checkpointLocation": ""}, 'option "checkpointLocation" is missing'),
        ({"acceptDuplicates": "yes"}, 'option "acceptDuplicates" is true or false'),
        ({"acceptDuplicates": "true", "abovePosition": "position"}, "exclude each other"),
        ({"maxMessagesPerBranch": "0"}, 'option "maxMessagesPerBranch" is a whole number from 1'),
        ({"brokerTimeoutS": "soon"}, 'option "brokerTimeoutS"'),
        ({"txnApp": "x"}, 'option "txnApp" is for batch writes'),
    ],
)
def test_a_stream_without_meaning(change: dict[str, str], text: str) -> None:
    with pytest.raises(SinkOptionError, match=text) as refused:
        read_stream_options(STREAM | change)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"txnApp": "x"}, "belong together"),
        ({"txnVersion": "1"}, "belong together"),
        ({"txnApp": "x", "txnVersion": "-1"}, 'option "txnVersion" is a whole number from 0'),
        ({"app": "x"}, 'option "app" is for streams'),
        ({"abovePosition": "x"}, 'option "abovePosition" is for batch writes with txnApp'),
        ({"checkpoint": "/c"}, 'option "checkpoint" is for batch writes with txnApp'),
    ],
)
def test_a_batch_write_without_meaning(change: dict[str, str], text: str) -> None:
    with pytest.raises(SinkOptionError, match=text):
        read_batch_options(BATCH | change)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"abovePosition": "there"}, 'option "abovePosition" names column there, which isn\'t there'),
        ({"abovePosition": "x"}, 'option "abovePosition": column x is a whole number, not double'),
        ({"queueColumn": "position"}, 'option "queueColumn": column position is a string, not int64'),
    ],
)
def test_columns_that_options_name(change: dict[str, str], text: str) -> None:
    StreamSink(STREAM | {"abovePosition": "position", "queueColumn": "where"}, SCHEMA, overwrite=False)
    with pytest.raises(SinkOptionError, match=text):
        StreamSink(STREAM | change, SCHEMA, overwrite=False)


def test_a_queue_is_only_appended_to() -> None:
    with pytest.raises(SinkOptionError, match='output mode "append" only'):
        StreamSink(STREAM, SCHEMA, overwrite=True)
    with pytest.raises(SinkOptionError, match=r'mode\("append"\) only'):
        BatchSink(BATCH, SCHEMA, overwrite=True)
    with pytest.raises(SinkOptionError, match="none of the columns value is one of a message"):
        BatchSink(BATCH, StructType().add("value", "binary"), overwrite=False)


def test_trust_in_a_broker() -> None:
    said = {"broker": "amqps://h", "tlsVerifyHost": "false", "tlsCertificateFile": "/c", "tlsKeyFile": "/k"}
    tls = read_broker(OptionReader(said, SinkOptionError)).tls
    assert tls is not None
    assert (tls.verify_host, tls.certificate_file, tls.key_file, tls.ca_file) == (False, "/c", "/k", None)
