"""By what a destination knows a message again: a hash of its message id."""

from hashlib import blake2b
from typing import Final

KEY_BYTES: Final = 16
"""Nobody meets two ids of one hash: it decides alone, without a look at the ids."""
MAX_DUPLICATE_WINDOW: Final = 1_000_000
"""Message ids that one destination may remember; each takes about 150 bytes."""


def key_of(id_type: int, message_id: bytes) -> bytes:
    """``id_type``: IdType, which tells the string "1" from the number 1; ``message_id`` as the head has
    it."""
    return blake2b(message_id, digest_size=KEY_BYTES, salt=bytes((id_type,))).digest()
