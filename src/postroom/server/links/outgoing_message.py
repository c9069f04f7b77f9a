"""A message on its way out of a link."""

from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import COPIED_BYTES


def send_message(
    link: SenderLink, head: bytes, sections: bytes, tag: bytes, settled: bool, context: object
) -> None:
    """Send a message that begins with ``head``."""
    if len(sections) <= COPIED_BYTES:
        link.send(head + sections, tag, settled, 0, None, context)
    else:
        link.send_behind(head, sections, tag, settled, context)
