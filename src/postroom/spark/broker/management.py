"""A driver's connection to the broker for management requests: made when something is asked, and made anew
after a break."""

from contextlib import suppress
from typing import Final

from postroom.client import Connection, ManagementClient
from postroom.client.aio import ConnectionFactory
from postroom.client.connection.transport import within
from postroom.client.exceptions import JMSException
from postroom.client.sync.portal import Portal
from postroom.spark.broker.options import Broker


class BrokerLink:
    """One connection with one management client. For one thread."""

    def __init__(self, broker: Broker, timeout_s: float) -> None:
        """``timeout_s``: of a request, and of connecting, over all brokers and attempts of a URL with
        fail-over.
        """
        self._timeout_s: Final = timeout_s
        self._factory: Final = ConnectionFactory(
            broker.url, connect_timeout_s=timeout_s, request_timeout_s=timeout_s, tls=broker.tls
        )
        self._connection: Connection | None = None
        self._management: ManagementClient | None = None

    def management(self) -> ManagementClient:
        """Raises ``JMSException``; after one that says that the connection is lost, `close` it."""
        if self._management is None:
            self._connection = self._connect()
            self._management = self._connection.create_management()
        return self._management

    def _connect(self) -> Connection:
        made = Portal.open(lambda: within(self._factory.create_connection(), self._timeout_s, "connecting"))
        return Connection(*made)

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        connection, self._connection, self._management = self._connection, None, None
        if connection is not None:
            with suppress(JMSException):  # it may be broken
                connection.close()
