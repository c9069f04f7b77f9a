"""Foreign brokers as real processes on loopback, and our own beside them, for benchmarks and tests.

`install.sh` fetches the foreign ones into ``.tools/``. Each broker is a context manager that starts on free
ports with a data folder of its own and leaves nothing running.
"""

from tools.peers.artemis import Artemis
from tools.peers.broker import Broker, BrokerFailed
from tools.peers.ports import free_port
from tools.peers.postroom import Postroom
from tools.peers.rabbitmq import RabbitMQ

__all__ = ["Artemis", "Broker", "BrokerFailed", "Postroom", "RabbitMQ", "free_port"]
