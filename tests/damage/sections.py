"""The sections of each kind of file, as byte ranges: what truncating and flipping go by."""

from pathlib import Path
from typing import Any

from postroom.ledger.format.block import ARRIVAL_BYTES, BLOCK_HEADER_BYTES, TRANSITION_BYTES
from postroom.ledger.format.headers import FILE_HEADER_BYTES
from postroom.ledger.format.layout import (
    BLOCK_ROW_DTYPE,
    CHECKPOINT_HEADER,
    EVENTS_HEADER,
    PACKED_HEADER,
    PACKED_ROW_DTYPE,
    SECTION_ROW,
    SUPERBLOCK,
    Layout,
)
from postroom.ledger.storage.journal_scan import FoundBlock, scan_journal
from postroom.ledger.storage.superblock import COPY_OFFSETS

Sections = dict[str, tuple[int, int]]
"""First byte and the byte behind the last, by name; empty ones are left out."""


def sections_of(path: Path) -> Sections:
    """The sections of a file of a ledger, ascending."""
    data = path.read_bytes()
    found = _OF_KIND[path.suffix or path.name](data)
    return {name: span for name, span in found.items() if span[1] > span[0]}


def _fields(layout: Layout, data: bytes) -> dict[str, Any]:
    names = [name for name, _ in layout.fields]
    return dict(zip(names, layout.struct.unpack_from(data), strict=True))


def _behind_one_another(start: int, sizes: dict[str, int]) -> Sections:
    found: Sections = {}
    for name, size in sizes.items():
        found[name] = (start, start + size)
        start += size
    return found


def _journal(data: bytes) -> Sections:
    scan = scan_journal("", memoryview(data), None)
    assert scan is not None and len(scan.blocks) > 2
    middle = next(block for block in scan.blocks[len(scan.blocks) // 2 :] if block.header.bodies_bytes)
    found: Sections = {"header": (0, FILE_HEADER_BYTES)}
    found |= _block("dictionary", scan.dictionary)
    found |= _block("middle block", middle)
    found |= _block("last block", scan.blocks[-1])
    return found | {"behind the blocks": (scan.end, len(data))}


def _block(name: str, block: FoundBlock) -> Sections:
    header = block.header
    sizes = {
        f"{name}'s header": BLOCK_HEADER_BYTES,
        f"{name}'s arrivals": header.arrivals * ARRIVAL_BYTES,
        f"{name}'s transitions": header.transitions * TRANSITION_BYTES,
        f"{name}'s names": header.names_bytes,
        f"{name}'s bodies": header.bodies_bytes,
    }
    return _behind_one_another(block.offset, sizes)


def _events(data: bytes) -> Sections:
    f = _fields(EVENTS_HEADER, data)
    dictionary = f["dictionary_count"] * TRANSITION_BYTES
    sizes = {
        "header": EVENTS_HEADER.size_bytes,
        "dictionary": dictionary,
        "transitions": f["transition_count"] * TRANSITION_BYTES - dictionary,
        "arrivals": f["arrival_count"] * ARRIVAL_BYTES,
        "names": f["names_bytes"],
        "block table": f["block_count"] * BLOCK_ROW_DTYPE.itemsize,
    }
    return _behind_one_another(0, sizes)


def _packed(data: bytes) -> Sections:
    f = _fields(PACKED_HEADER, data)
    index = f["index_offset"], f["index_offset"] + f["index_count"] * PACKED_ROW_DTYPE.itemsize
    head = PACKED_HEADER.size_bytes
    return {"header": (0, head), "bodies": (head, f["index_offset"]), "index": index}


def _checkpoint(data: bytes) -> Sections:
    head = CHECKPOINT_HEADER.size_bytes
    directory = head + _fields(CHECKPOINT_HEADER, data)["section_count"] * SECTION_ROW.size_bytes
    found: Sections = {"header": (0, head), "directory": (head, directory)}
    for name, offset, length, _, _ in SECTION_ROW.struct.iter_unpack(data[head:directory]):
        found[name.rstrip(b"\0").decode()] = (offset, offset + length)
    return found


def _superblock(data: bytes) -> Sections:
    first, second = COPY_OFFSETS
    size = SUPERBLOCK.size_bytes
    return {
        "first copy": (first, first + size),
        "behind the first copy": (first + size, second),
        "second copy": (second, second + size),
        "behind the second copy": (second + size, len(data)),
    }


_OF_KIND = {
    ".journal": _journal,
    ".bodies": _journal,
    ".events": _events,
    ".packed": _packed,
    ".checkpoint": _checkpoint,
    "superblock": _superblock,
}
