"""How links to foreign brokers end."""

from postroom.amqp.encoding.composite import Error
from postroom.model.channel_states import ChannelEvent
from postroom.server.channels.outbound_connection import LASTING


def how_it_ended(finished: bool, error: Error | None, lost: bool) -> tuple[ChannelEvent, str]:
    """What to tell the channel, and why: only this end ends a link for good (``finished``). Whatever the
    partner does is tried again, unless ``error`` says that somebody must look at it."""
    if finished:
        return ChannelEvent.ENDED, ""
    if error is not None:
        why = f"{error.condition}: {error.description or 'no reason given'}"
        return (ChannelEvent.REFUSED if error.condition in LASTING else ChannelEvent.LOST), why
    return ChannelEvent.LOST, "the connection was lost" if lost else "the partner has closed the link"
