"""Messages, as the management node puts, gets and changes them; there are too many to be listed as rows."""

from collections.abc import Mapping
from typing import Final

from postroom.model.entity_types import MESSAGE_TYPE
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.management.entity_type import Operation, UnlistedEntityType
from postroom.server.management.operations.message_management import MessageManagement
from postroom.server.management.operations.message_store import StoreOperations


class Messages(UnlistedEntityType):
    """The messages of one broker's queues; a request's name is the queue's."""

    type: Final = MESSAGE_TYPE

    def __init__(self, broker: BrokerState) -> None:
        self.operations: Final[Mapping[str, Operation]] = {
            **StoreOperations(broker).operations,
            **MessageManagement(broker).operations,
        }
