"""The options of the sources ``postroom`` and ``postroom.ranges``, read and checked. Needs no Spark."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.data_source.option_names import SOURCE, unknown_option
from postroom.spark.data_source.option_reader import OptionReader
from postroom.spark.ledger_source.positions import Position, PositionsInvalid, from_json
from postroom.spark.places.uris import Places

MOST_PARTITION_RECORDS: Final = 1_000_000
LEAST_PARTITION_RECORDS: Final = 100_000
PARTITIONS_WANTED: Final = 8
"""Unless `partitionRecords` says otherwise, a read is cut into so many partitions, of a size within these
bounds."""

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
FAIL: Final = "fail"
DROP: Final = "drop"
_US_A_S: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Start:
    """Where a read begins: `EARLIEST`, `LATEST`, a time in µs since 1970, or behind positions."""

    at: str | int | Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options, checked. Positions and times that bound the read: the first is included, `to_time_us` not.

    None: not given.
    """

    uris: tuple[str, ...]
    token: str
    cache: str
    start: Start
    first: int | None
    last: int | None
    from_time_us: int | None
    to_time_us: int | None
    queues: frozenset[str] | None
    max_rows: int | None
    max_bytes: int | None
    partition_records: int | None
    carried: bool
    pushdown: bool
    fail_on_data_loss: bool
    drop_missing_ledger: bool

    def places(self) -> Places:
        """The places that are read."""
        return Places(self.uris, self.token, self.cache)

    def records_a_partition(self, records: int) -> int:
        """How many records a task is given where there are so many."""
        if self.partition_records is not None:
            return self.partition_records
        share = -(-records // PARTITIONS_WANTED)
        return max(LEAST_PARTITION_RECORDS, min(MOST_PARTITION_RECORDS, share))


def read_options(
    options: Mapping[str, str], known: Iterable[str] = SOURCE, what: str = "the source postroom"
) -> SourceOptions:
    """Options as Spark gives them → checked; `known`: their names, of `what`. Raises
    ``SourceOptionError``."""
    wrong = unknown_option(options, known, what)
    if wrong:
        raise SourceOptionError(wrong)
    reader = OptionReader(options, SourceOptionError)
    read = SourceOptions(
        uris=_uris(reader),
        token=reader.text("token"),
        cache=reader.text("cache"),
        start=_start(reader),
        first=reader.number("fromPosition"),
        last=reader.number("toPosition"),
        from_time_us=_time(reader, "fromTime"),
        to_time_us=_time(reader, "toTime"),
        queues=_queues(reader),
        max_rows=reader.number("maxRows"),
        max_bytes=reader.number("maxBytes"),
        partition_records=reader.number("partitionRecords"),
        carried=reader.flag("carried"),
        pushdown=reader.flag("pushdown"),
        fail_on_data_loss=reader.flag("failOnDataLoss", True),
        drop_missing_ledger=reader.choice("onMissingLedger", (FAIL, DROP)) == DROP,
    )
    _check_ranges(read)
    return read


def _check_ranges(read: SourceOptions) -> None:
    if read.first is not None and read.last is not None and read.last < read.first:
        raise SourceOptionError(f"toPosition {read.last} is below fromPosition {read.first}")
    if read.from_time_us is not None and read.to_time_us is not None and read.to_time_us <= read.from_time_us:
        raise SourceOptionError("toTime must be later than fromTime: it is not part of the range")
    if len(read.uris) > 1 and (read.first is not None or read.last is not None):
        raise SourceOptionError(
            "fromPosition and toPosition are positions of one ledger; for several give startingPosition as"
            " JSON"
        )


def _uris(options: OptionReader) -> tuple[str, ...]:
    what = "it names the folder of the ledger, or the URI of another place of it"
    text = options.given("paths") or options.needed("path", what)
    uris = _texts(text, "path") if text.startswith("[") else (text,)
    if len(set(uris)) < len(uris):
        raise SourceOptionError(f'option "path" names a ledger twice: {text}')
    return uris


def _queues(options: OptionReader) -> frozenset[str] | None:
    text = options.given("queues")
    if text is None:
        return None
    if text.startswith("["):
        return frozenset(_texts(text, "queues"))
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _texts(text: str, name: str) -> tuple[str, ...]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise SourceOptionError(f'option "{name}" is no JSON list: {error}') from error
    if not isinstance(parsed, list) or not parsed or not all(isinstance(one, str) and one for one in parsed):
        raise SourceOptionError(f'option "{name}" is a JSON list of texts, not {text}')
    return tuple(parsed)


def _start(options: OptionReader) -> Start:
    if options.given("startingPosition") is None:
        return Start(EARLIEST)
    text = options.text("startingPosition")
    if text.lower() in (EARLIEST, LATEST):
        return Start(text.lower())
    if text.startswith("{"):
        try:
            return Start(from_json(text))
        except PositionsInvalid as error:
            raise SourceOptionError(f'option "startingPosition": {error}') from error
    return Start(_time_us(text, "startingPosition", "earliest, latest, a time or JSON of positions"))


def _time(options: OptionReader, name: str) -> int | None:
    text = options.given(name)
    return None if text is None else _time_us(text.strip(), name, "a time")


def _time_us(text: str, name: str, what: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise SourceOptionError(
            f'option "{name}" must be {what}, not {text!r}; times are as in RFC 3339, with their zone'
            " (2026-03-01T08:00:00Z)"
        )
    since = time.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * _US_A_S + since.microseconds
