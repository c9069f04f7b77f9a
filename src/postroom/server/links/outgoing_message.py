"""A message on its way out of a link."""

from typing import Final

from postroom.amqp.engine.sender import SenderLink

LARGE_BYTES: Final = 256 << 10
"""From here on another copy costs more than another frame."""


def send_message(
    link: SenderLink, head: bytes, sections: bytes, tag: bytes, settled: bool, context: object
) -> None:
    """Send a message that begins with ``head``."""
    if len(sections) < LARGE_BYTES:
        link.send_joined(head, sections, tag, settled, context)
        return
    begun = link.send(head, tag, settled, 0, None, context, True)
    link.append(begun, sections, False)
