"""A message on its way to a queue: of which some frames have come; and what it says of where to."""

from typing import TYPE_CHECKING, Final

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.errors import AmqpError
from postroom.amqp.extensions import DESTINATION_TYPE
from postroom.amqp.message.message_fields import MessageFields
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.errors import ManagerError
from postroom.model.message import MessageHead

if TYPE_CHECKING:
    from postroom.manager.producing.upload import Upload

DESTINATION_IS_TOPIC: Final = 1
OLDER_DESTINATION_TYPE: Final = "x-opt-to-type"
"""Message annotations by which JMS clients tell what kind of destination `to` is."""


def is_to_topic(payload: bytes, head: MessageHead) -> bool:
    """Whether the annotations of a message say that its ``to`` is a topic, as JMS clients write them."""
    if head.annotations_start == head.annotations_end:
        return False
    fields = MessageFields(head.priority, head.durable, 0, payload[head.bare_offset : head.body_start], None)
    if fields.annotation(DESTINATION_TYPE) == DESTINATION_IS_TOPIC:
        return True
    older = fields.annotation(OLDER_DESTINATION_TYPE)
    return isinstance(older, str) and older == "topic"


class Unroutable(AmqpError):
    """A message to the anonymous terminus can't go to its ``to``: the error that a link to there would have
    got, with the delivery's tag (section 2.2.2 of the Anonymous Terminus extension)."""

    def __init__(self, error: AmqpError | ManagerError, address: str, tag: bytes) -> None:
        super().__init__(error.condition, error.description, {Symbol("delivery-tag"): tag})
        self.address: Final = address


class Arriving:
    """A message of which some frames have come."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size_bytes = 0
        self.came_bytes = 0
        """Of all its frames so far."""
        self.head: MessageHead | None = None
        """Set when the upload has begun: what is before it has gone to the ledger."""
        self.queue: Destination | None = None
        self.upload: Upload | None = None
        self.refusal: AmqpError | ManagerError | None = None
        self.txn_id: bytes | None = None
        """The transaction that its first frame names; every frame must name the same."""

    def add(self, payload: bytes) -> None:
        self.parts.append(payload)
        self.size_bytes += len(payload)
        self.came_bytes += len(payload)

    def take(self) -> bytes:
        """What has been collected since the last time."""
        data = b"".join(self.parts)
        self.parts.clear()
        self.size_bytes = 0
        return data
