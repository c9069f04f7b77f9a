"""What every released version has written is opened: ledgers, configuration, decision log, offsets.

Tables are tried in tests/spark/session/pipeline/test_upgraded_tables.py.
"""

from pathlib import Path

import msgspec
import pytest

from postroom.client import Queue
from postroom.client.sync import ConnectionFactory
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.verification.verification import verify
from postroom.server.configuration.config_file import ConfigError, load_config
from postroom.spark.data_source.offset_log import Checkpoint
from postroom.spark.ledger_source.positions import check, from_json
from postroom.spark.places.place import snapshots_of
from postroom.spark.places.uris import place_of
from tests.server.harness import BrokerThread
from tests.upgrades.fixtures import (
    CHECKPOINT,
    CONFIG,
    DECISIONS,
    ENDING,
    LEDGERS,
    PRESENT,
    names_of,
    noted,
    unpack,
    versions,
)
from tests.upgrades.summary import differences, summary_of
from tests.upgrades.write import PIPED, content_of

pytestmark = pytest.mark.timeout(300)

VERSIONS = versions()
WRITTEN = [(version, name) for version in VERSIONS for name in names_of(version, LEDGERS)]
IDS = [f"{version.name}-{name}" for version, name in WRITTEN]
each_version = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)


@pytest.fixture
def ledger(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    version, name = request.param
    return unpack(version / LEDGERS / (name + ENDING), tmp_path / "data")


@pytest.mark.parametrize(
    ("ledger", "recorded"),
    [((version, name), version / LEDGERS / f"{name}.json") for version, name in WRITTEN],
    ids=IDS,
    indirect=["ledger"],
)
def test_a_ledger_comes_to_what_it_came_to(ledger: Path, recorded: Path) -> None:
    assert verify(ledger, bodies=True).is_whole
    assert not differences(noted(recorded), summary_of(ledger))
    assert verify(ledger, bodies=True).is_whole


@pytest.mark.parametrize("ledger", WRITTEN, ids=IDS, indirect=True)
def test_a_broker_goes_on_with_it(ledger: Path) -> None:
    before = LedgerReader(ledger).durable_through
    with BrokerThread(folder=ledger) as broker:
        with ConnectionFactory(broker.url).create_context() as context:
            queue = Queue("after-the-upgrade")
            context.create_producer().send(queue, "works")
            received = context.create_consumer(queue).receive_body(str, 20_000)
        assert received == "works"
    assert verify(ledger, bodies=True).is_whole
    assert LedgerReader(ledger).durable_through > before


ADDED = """
[[role]]
name = "administrator"
members = ["ann"]
"""
"""What a configuration with users of before there were roles is to be given; the start says so."""


@each_version
def test_a_configuration_means_what_it_meant(version: Path, tmp_path: Path) -> None:
    file = tmp_path / CONFIG
    file.write_text((version / CONFIG).read_text())
    with pytest.raises(ConfigError, match=r'\[\[role\]\] name = "administrator" members = \["ann"\]'):
        load_config(file)
    file.write_text(file.read_text() + ADDED)
    now = msgspec.to_builtins(load_config(file))
    assert not differences(noted(version / f"{CONFIG}.json"), now)


@each_version
def test_a_decision_log_says_what_it_said(version: Path, tmp_path: Path) -> None:
    folder = unpack(version / (DECISIONS + ENDING), tmp_path / "log")
    record = content_of(folder)
    assert not differences(noted(version / f"{DECISIONS}.json"), record)
    assert not differences(record, content_of(folder)), "after this version has written it"


@each_version
def test_a_streams_offsets_lie_in_the_ledgers(version: Path, tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(unpack(version / (CHECKPOINT + ENDING), tmp_path / "checkpoint")))
    offsets = checkpoint.offsets(0)
    assert offsets is not None
    positions = from_json(offsets[0].offset)
    folders = [unpack(version / LEDGERS / (name + ENDING), tmp_path / name) for name in PIPED]
    for folder in folders:
        with BrokerThread(folder=folder):
            pass
    seen = snapshots_of([place_of(str(folder)) for folder in folders])
    assert positions.keys() <= seen.keys()
    for ledger_id, position in positions.items():
        check(seen[ledger_id].snapshot, position)


def test_this_version_has_left_something() -> None:
    assert PRESENT in VERSIONS, "python -m tests.upgrades.write"
