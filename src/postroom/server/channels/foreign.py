"""Channels to and from foreign brokers begin: a link to an address of theirs, on a connection of ours."""

from postroom.amqp.engine.link import Link
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.frames.transfers import SND_UNSETTLED
from postroom.server.channels.agent_link import AgentLink
from postroom.server.channels.foreign_receiving_link import ForeignReceivingLink
from postroom.server.channels.foreign_sending_link import ForeignSendingLink
from postroom.server.channels.instance import ChannelInstance
from postroom.server.kernel.connection_state import ConnectionState

CAPABILITIES = ["queue"]
"""What kind of node the address is, for brokers that would make another one of it."""


def begin_foreign_sending(
    binding: ConnectionState, instance: ChannelInstance, now_us: int
) -> ForeignSendingLink:
    """Attach a link that sends to the partner's address."""
    definition = instance.definition
    link = binding.engine.begin().attach_sender(
        _link_name(binding, instance),
        Source(address=definition.transmission_queue),
        Target(address=definition.remote_address, capabilities=CAPABILITIES),
    )
    bound = ForeignSendingLink(binding, link, instance)
    _bind(binding, link, bound, now_us)
    return bound


def begin_foreign_receiving(
    binding: ConnectionState, instance: ChannelInstance, now_us: int
) -> ForeignReceivingLink:
    """Attach a link that receives from the partner's address."""
    definition = instance.definition
    link = binding.engine.begin().attach_receiver(
        _link_name(binding, instance),
        Source(address=definition.remote_address, capabilities=CAPABILITIES),
        Target(address=definition.local_queue),
        snd_settle_mode=SND_UNSETTLED,
    )
    bound = ForeignReceivingLink(binding, link, instance)
    _bind(binding, link, bound, now_us)
    return bound


def _link_name(binding: ConnectionState, instance: ChannelInstance) -> str:
    return f"postroom-channel:{binding.broker.config.container_id}:{instance.name}"


def _bind(binding: ConnectionState, link: Link, bound: AgentLink, now_us: int) -> None:
    link.context = bound
    binding.links[link] = bound
    bound.attaching(now_us)
    binding.touch()
