"""Bodies too large for one piece: written to the ledger as they arrive, an entry only when they are whole."""

from typing import final

from isal.isal_zlib import crc32
from mypy_extensions import i64

from postroom.ledger.format.records import CHUNK_BODY_BYTES
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.errors import MessageTooLarge, NotAllowed


@final
class Upload:
    """A body that is arriving. After a crash, or an abort, nothing is left of it."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.chunks: list[int] = []
        """Positions of its chunk records; the first is its id."""
        self.opening = b""
        """Its first piece, which has every section before the body."""
        self.size_bytes: i64 = 0
        self.crc: i64 = 0
        self.over = False


def add_chunk(core: Core, upload: Upload, data: bytes) -> None:
    """The next bytes of the body; raises MessageTooLarge when it passes the queue manager's limit,
    NotAllowed."""
    if upload.over:
        raise NotAllowed("this upload has been finished or aborted")
    size = upload.size_bytes + len(data)
    if size > core.options.max_message_bytes:
        raise MessageTooLarge(
            f"message of more than {size} bytes; the queue manager takes {core.options.max_message_bytes}"
        )
    if not data:
        return
    first = upload.chunks[0] if upload.chunks else 0
    if first == 0:
        upload.opening = data
    position = core.ledger.body_chunk(first, data)
    core.durability.provisional(position)
    upload.chunks.append(int(position))
    upload.size_bytes = size
    upload.crc = crc32(data, upload.crc)


def abort(core: Core, upload: Upload) -> None:
    """The body will not be finished: its chunks are dead."""
    if not upload.over:
        drop(core, upload)
    upload.over = True


def drop(core: Core, upload: Upload) -> None:
    """No entry will have this body."""
    if upload.chunks:
        core.ledger.abort_upload(upload.chunks[0])


def upload_of(core: Core, producer: Producer, body: bytes) -> Upload | None:
    """A large body that is here as a whole, written in pieces; None for another one."""
    if len(body) <= CHUNK_BODY_BYTES:
        return None
    upload = Upload(producer)
    for at in range(0, len(body), CHUNK_BODY_BYTES):
        add_chunk(core, upload, body[at : at + CHUNK_BODY_BYTES])
    upload.over = True
    return upload
