"""What a broker makes of the ledger's background work: an alarm while it fails, its end once it has ended."""

import pytest

from postroom.ledger.errors import LedgerFailed
from tests.server.harness import BrokerThread
from tests.server.memory_ledger import MemoryLedger


def alarms(broker: BrokerThread) -> list[str]:
    return broker.call(lambda found: [alarm.name for alarm in found.alarms.all()])


@pytest.mark.sockets
def test_an_alarm_is_on_as_long_as_it_fails() -> None:
    ledger = MemoryLedger()
    with BrokerThread(ledger=ledger) as broker:
        ledger.maintenance_error = OSError("the disk fails")
        broker.call(lambda _: broker.idle_time_is_over())
        assert alarms(broker) == ["maintenance-stopped"]
        ledger.maintenance_error = None
        broker.wait_until(lambda found: not found.alarms.all())


@pytest.mark.sockets
def test_once_it_has_ended_the_broker_ends() -> None:
    ledger = MemoryLedger()
    with BrokerThread(ledger=ledger) as broker:
        ledger.maintenance_failure = LedgerFailed("background work has failed for 60 s")
        service = broker.service()
        broker.call(lambda _: broker.idle_time_is_over())
    assert service.failure is ledger.maintenance_failure
