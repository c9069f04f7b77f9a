"""What is asked for when bodies are read, and what comes back."""

from postroom.ledger.errors import LedgerCorrupt

BodyPlace = tuple[int, int, int]
"""(body_serial, body_offset, body_len) as an arrival has them: the block that holds the serial, the offset in
its bodies heap, the bytes without their trailer.
"""

Body = bytes | LedgerCorrupt
"""A body that was read; empty if it has been taken away; what is wrong with it if it is damaged."""
