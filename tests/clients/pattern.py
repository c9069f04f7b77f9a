"""Generated message bodies, and how drivers tell of received ones (see README.md)."""

import hashlib
from typing import Any

PERIOD = 251
HEX_BYTES = 1024


def pattern(size: int, seed: int) -> bytes:
    """The generated body: the byte at offset i is (i * 31 + seed) mod 251, which repeats after 251 bytes."""
    period = bytes((i * 31 + seed) % PERIOD for i in range(PERIOD))
    return (period * (size // PERIOD + 1))[:size]


def data_from_json(spec: dict[str, Any]) -> bytes:
    """The bytes that a `{"data": spec}` body stands for."""
    if "hex" in spec:
        return bytes.fromhex(spec["hex"])
    return pattern(spec["size"], spec["seed"])


def data_to_json(data: bytes) -> dict[str, Any]:
    """What a driver tells of a received data body; the hexadecimal text only when it is short."""
    fields: dict[str, Any] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if len(data) <= HEX_BYTES:
        fields["hex"] = data.hex()
    return fields
