"""Which kind of link a channel has: between two Postrooms, or with a foreign broker."""

from postroom.model.channel import PROTOCOL_AMQP
from postroom.server.channels.foreign import begin_foreign_receiving, begin_foreign_sending
from postroom.server.channels.instance import ChannelInstance, ChannelLink
from postroom.server.channels.receiving_link import begin_requesting
from postroom.server.channels.sending_link import begin_sending
from postroom.server.kernel.connection_state import ConnectionState


def begin(binding: ConnectionState, instance: ChannelInstance, now_us: int) -> ChannelLink:
    """Attach the link of a run on the connection that it has opened. Raises AmqpError, ManagerError."""
    definition = instance.definition
    if definition.protocol == PROTOCOL_AMQP:
        foreign = begin_foreign_sending if definition.sending else begin_foreign_receiving
        return foreign(binding, instance, now_us)
    if definition.sending:
        return begin_sending(binding, instance, now_us)
    return begin_requesting(binding, instance, now_us)
