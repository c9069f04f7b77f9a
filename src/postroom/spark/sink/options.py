"""The options of the sink, read and checked. Needs no Spark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from postroom.client.connection.tls import TlsOptions
from postroom.client.connection.url import parse_url
from postroom.spark.data_source.option_names import SINK, unknown_option
from postroom.spark.sink.errors import SinkOptionError

MAX_BRANCH_MESSAGES: Final = 50_000
"""Unless `maxMessagesPerBranch` says otherwise. The broker's own bound is `max_sink_branch_messages`."""
BROKER_TIMEOUT_S: Final = 60
"""Unless `brokerTimeoutS` says otherwise."""
MOST_BROKER_TIMEOUT_S: Final = 86_400
_APP: Final = re.compile(r"[\w.:/@+-]{1,200}")


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is, and whom to trust there."""

    url: str
    tls: TlsOptions | None


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
    said = _known(options)
    said.refuse(("txnApp", "txnVersion"), "for batch writes; a stream has the option app")
    if not said.text("app"):
        raise SinkOptionError(
            'option "app" is missing: the name by which the broker knows what was written, the same whenever'
            " this query is started again"
        )
    checkpoint = said.text("checkpoint") or said.text("checkpointLocation")
    if not checkpoint:
        raise SinkOptionError(
            'option "checkpointLocation" is missing: the sink reads from it which offsets a batch has. If'
            ' Spark\'s configuration says where it is, name that folder in the option "checkpoint"'
        )
    return _read(said, said.text("app"), None, checkpoint)


def read_batch_options(options: Mapping[str, str]) -> SinkOptions:
    """Of write. Raises ``SinkOptionError``."""
    said = _known(options)
    said.refuse(("app",), "for streams; a batch write has txnApp and txnVersion")
    app, version = said.text("txnApp"), said.number("txnVersion", 0, (1 << 63) - 1, None)
    if bool(app) != (version is not None):
        raise SinkOptionError(
            'options "txnApp" and "txnVersion" belong together: a write of that version that is done is not'
            " done again; without both each write is done"
        )
    if not app:
        said.refuse(("checkpoint", "abovePosition", "acceptDuplicates"), "for batch writes with txnApp")
    return _read(said, app, version, said.text("checkpoint"))


def _known(options: Mapping[str, str]) -> "_Said":
    wrong = unknown_option(options, SINK, "the sink postroom.messages")
    if wrong:
        raise SinkOptionError(wrong)
    return _Said(options)


def _read(said: "_Said", app: str, version: int | None, checkpoint: str) -> SinkOptions:
    if app and not _APP.fullmatch(app):
        raise SinkOptionError(f"the app {app!r} is up to 200 letters, digits and characters of _.:/@+-")
    read = SinkOptions(
        read_broker(said.options),
        said.text("queue"),
        said.text("queueColumn"),
        app,
        version,
        said.text("abovePosition"),
        said.flag("acceptDuplicates"),
        checkpoint,
        said.number("maxMessagesPerBranch", 1, 1_000_000, MAX_BRANCH_MESSAGES) or MAX_BRANCH_MESSAGES,
        said.number("brokerTimeoutS", 1, MOST_BROKER_TIMEOUT_S, BROKER_TIMEOUT_S) or BROKER_TIMEOUT_S,
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


def read_broker(options: Mapping[str, str]) -> Broker:
    """The options ``broker`` and ``tls…``. Raises ``SinkOptionError``; passwords are in no error."""
    said = _Said(options)
    url = said.text("broker")
    if not url:
        raise SinkOptionError('option "broker" is missing: amqp://user:password@host:port, or amqps://')
    try:
        parse_url(url)
    except ValueError as error:
        raise SinkOptionError(f'option "broker": {error}') from None
    tls = TlsOptions(
        ca_file=said.text("tlsCaFile") or None,
        certificate_file=said.text("tlsCertificateFile") or None,
        key_file=said.text("tlsKeyFile") or None,
        key_password=said.text("tlsKeyPassword") or None,
        verify_host=said.flag("tlsVerifyHost", True),
    )
    return Broker(url, None if tls == TlsOptions() else tls)


class _Said:
    """Options by name, whatever its case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options: Final = {name.lower(): text for name, text in options.items()}

    def text(self, name: str) -> str:
        return self.options.get(name.lower(), "").strip()

    def flag(self, name: str, otherwise: bool = False) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise SinkOptionError(f'option "{name}" is true or false, not {text!r}')
        return text == "true" if text else otherwise

    def number(self, name: str, least: int, most: int, otherwise: int | None) -> int | None:
        text = self.text(name)
        if not text:
            return otherwise
        if not text.isdecimal() or not least <= int(text) <= most:
            raise SinkOptionError(f'option "{name}" is a whole number from {least} to {most}, not {text!r}')
        return int(text)

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        for name in names:
            if self.text(name):
                raise SinkOptionError(f'option "{name}" is {why}')
