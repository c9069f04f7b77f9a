"""The control link of transactions, against a real broker."""

from __future__ import annotations

import pytest

from postroom.amqp.frames.outcomes import Accepted, TransactionalState
from postroom.client.aio import ConnectionFactory
from postroom.client.exceptions import JMSException
from postroom.client.messages.message import Message, encode_message
from postroom.client.transactions.coordinator import Coordinator
from tests.client.fake_broker import asynchronous
from tests.server.harness import BrokerThread, make_config

LOCAL = ["amqp:local-transactions"]
pytestmark = pytest.mark.sockets


@pytest.mark.parametrize(("fail", "left"), [(False, 1), (True, 0)])
def test_a_send_in_a_transaction_waits_for_its_discharge(fail: bool, left: int) -> None:
    with BrokerThread(make_config(("q",))) as broker:
        transact(broker, fail)
        assert broker.call(lambda b: int(b.manager.queues["q"].statistics.current)) == left


@asynchronous
async def transact(broker: BrokerThread, fail: bool) -> None:
    async with await ConnectionFactory(broker.url).create_connection() as connection:
        session = await connection.create_session()
        coordinator = Coordinator(session._channel, LOCAL)
        await coordinator.attach(5)
        producer = await session.create_producer("q")
        txn_id = await coordinator.declare(5)
        state = TransactionalState(txn_id)
        outcome = await producer._sending.send(encode_message(Message("a"), "q"), False, 5, state=state)
        assert outcome is not None
        delivery_state = await outcome
        assert isinstance(delivery_state, TransactionalState)
        assert isinstance(delivery_state.outcome, Accepted)
        await coordinator.discharge(txn_id, fail, 5)
        with pytest.raises(JMSException, match="transaction"):
            await coordinator.discharge(txn_id, fail, 5)
