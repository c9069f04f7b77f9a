"""A driver's connection: one for all that is asked, made anew after a break, and given up in time."""

import pytest

from postroom.client.exceptions import JMSTimeoutException
from postroom.spark.broker.management import BrokerLink
from postroom.spark.broker.options import Broker
from postroom.spark.consume.errors import BrokerUnreachable
from postroom.spark.consume.subscription import BrokerSubscription
from tests.server.harness import BrokerThread

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(60)]

NOBODY = Broker("failover:(amqp://127.0.0.1:1)", None)
"""With fail-over a connection is tried for as long as nobody says otherwise."""


def test_all_requests_have_one_session_until_it_is_closed() -> None:
    with BrokerThread() as broker:
        link = BrokerLink(Broker(broker.url, None), 20)
        first = link.management()
        assert first.query("postroom.queue") is not None
        assert link.management() is first
        link.close()
        assert link.management() is not first
        link.close()


def test_a_url_with_fail_over_is_given_up_in_time() -> None:
    with pytest.raises(JMSTimeoutException, match=r"connecting within 0\.2 s"):
        BrokerLink(NOBODY, 0.2).management()
    with pytest.raises(BrokerUnreachable, match=r"gave no answer for 0\.2 s"):
        BrokerSubscription(NOBODY, "lake", 0.2).look()
