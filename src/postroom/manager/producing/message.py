"""A message on its way to its place: what every step from the send to the arrival record needs of it."""

from typing import final

from mypy_extensions import i64, mypyc_attr

from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.producing.upload import Upload, upload_of
from postroom.model.message import MessageHead


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Message:
    """A head, and the sections that it is the head of (without header and delivery-annotations): ``body``, or
    else an ``upload``."""

    __slots__ = ("body", "head", "size", "upload")

    def __init__(self, head: MessageHead, body: bytes | None, upload: Upload | None = None) -> None:
        self.head = head
        self.body = body
        self.upload = upload
        self.size: i64 = 0
        """In bytes, of its sections."""
        if body is not None:
            self.size = len(body)
        elif upload is not None:
            self.size = upload.size_bytes

    def opening(self) -> bytes:
        """Its first bytes, which have every section before the body."""
        return (self.upload.opening if self.upload is not None else self.body) or b""


def message_of(core: Core, producer: Producer, head: MessageHead, body: bytes) -> Message:
    """A message that is here as a whole; a large body is written in pieces first."""
    upload = upload_of(core, producer, body)
    return Message(head, None if upload is not None else body, upload)
