"""Ledgers that a newer Postroom has written to: the broker refuses each in a line that says what to do, and
passes over nothing."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from postroom import __version__
from postroom.ledger.fold import checkpoint
from postroom.ledger.fold.state import FoldState
from postroom.ledger.format.block import Group
from postroom.ledger.format.file_names import SUPERBLOCK_NAME, journal_name
from postroom.ledger.format.headers import with_crc
from postroom.ledger.format.layout import FILE_HEADER, SUPERBLOCK, TRANSITION_DTYPE
from postroom.ledger.format.records import BLOCK_HEADER, BLOCK_MAGIC, FORMAT_VERSION
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.storage.disk import Bytes
from postroom.ledger.storage.superblock import COPY_OFFSETS, read_superblock
from postroom.ledger.verification.verification import verify
from postroom.model.codes import Event, Outcome, State
from postroom.server.configuration.config import Config
from postroom.server.exits import Exit, StartError
from postroom.server.start import make_broker, open_ledger
from tests.ledger.entry_records import arrival_of
from tests.ledger.ledger_maker import LedgerMaker
from tests.manager.over_ledger import LedgerWorld
from tests.manager.restarts import fill
from tests.server.harness import make_config

NEWER = FORMAT_VERSION + 1
PATIENCE_S = 60
VERSION_AT, WRITER_AT, FLAGS_AT = 8, 72, 80
"""In the headers that say so."""


def refused(folder: Path) -> str:
    """What the broker says of a ledger that it refuses, in one line."""
    config = make_config(data=str(folder))
    with pytest.raises(StartError) as refusal:
        started(config)
    assert refusal.value.code is Exit.LEDGER_REFUSED
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def started(config: Config) -> None:
    ledger = open_ledger(config)
    try:
        make_broker(config, ledger)
    finally:
        ledger.close()


def refused_by_process(folder: Path) -> str:
    """The same of `postroom serve`."""
    command = [sys.executable, "-m", "postroom", "serve", "--listen", "127.0.0.1:0", "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == Exit.LEDGER_REFUSED, done.stderr
    (line,) = done.stderr.splitlines()
    assert done.stdout == ""
    return line


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def patched(path: Path, at: int, size: int, **values: tuple[int, bytes]) -> None:
    """Bytes of a header of that size are others, and its CRC is right."""
    data = bytearray(path.read_bytes())
    header = bytearray(data[at : at + size])
    for offset, value in values.values():
        header[offset : offset + len(value)] = value
    header[4:8] = bytes(4)
    data[at : at + size] = with_crc(bytes(header))
    path.write_bytes(data)


def newer_format(folder: Path, writer: bytes) -> None:
    for at in COPY_OFFSETS:
        patched(
            folder / SUPERBLOCK_NAME,
            at,
            SUPERBLOCK.size_bytes,
            version=(VERSION_AT, NEWER.to_bytes(4, "little")),
            writer=(WRITER_AT, writer.ljust(16, b"\0")),
        )


def made(folder: Path, more: Callable[[LedgerMaker, int, int], object] = lambda *_: None) -> Path:
    """A ledger with a queue and a message, and more."""
    maker = LedgerMaker(folder)
    queue = maker.queue("orders")
    more(maker, queue, maker.put(queue))
    return maker.finish()


def test_a_newer_format_is_refused_and_says_who_wrote_it(tmp_path: Path) -> None:
    ledger = made(tmp_path / "ledger")
    newer_format(ledger, b"0.9.0")
    before = contents(ledger)
    line = refused_by_process(ledger)
    assert f"format version {NEWER}, written by Postroom 0.9.0; this Postroom, {__version__}, reads 1" in line
    assert "upgrade it (pip install --upgrade 'postroom>=0.9.0')" in line
    assert contents(ledger) == before


def test_a_superblock_says_which_version_wrote_it(tmp_path: Path) -> None:
    with folder_of(made(tmp_path / "ledger")) as disk:
        superblock = read_superblock(disk)
    assert superblock is not None
    assert superblock.writer == __version__


def test_a_journal_of_a_newer_format_is_no_file_that_was_never_begun(tmp_path: Path) -> None:
    ledger = made(tmp_path / "ledger", lambda maker, *_: maker.next_file())
    newest = max(ledger.glob("*.journal"))
    patched(newest, 0, FILE_HEADER.size_bytes, version=(VERSION_AT, NEWER.to_bytes(4, "little")))
    before = contents(ledger)
    assert f"{newest.name}: format version {NEWER};" in refused(ledger)
    assert contents(ledger) == before


def unknown_group(maker: LedgerMaker, queue: int, serial: int) -> None:
    maker.group(Event.PURGE, [Group(queue, State.AVAILABLE, State.DELETED, 77, 0, 0, 0, [(serial, serial)])])


def unknown_arrival_flag(maker: LedgerMaker, queue: int, serial: int) -> None:
    maker.builder.arrival(arrival_of(queue, b"body", flags=1 << 14))


UNKNOWN: dict[str, Callable[[LedgerMaker, int, int], object]] = {
    "record type 200": lambda maker, queue, serial: maker.unknown(),
    "event 90": lambda maker, queue, serial: maker.change(serial, queue, 90, State.AVAILABLE, State.DELETED),
    "to_state 9": lambda maker, queue, serial: maker.change(serial, queue, Event.GET, State.AVAILABLE, 9),
    "holder_kind 50": lambda maker, queue, serial: maker.change(
        serial, queue, Event.ACQUIRE, State.AVAILABLE, State.GET_UNCONFIRMED, holder_kind=50
    ),
    "causes 16": lambda maker, queue, serial: maker.put(queue, to_state=State.DELAYED, causes=16),
    "flags 64": lambda maker, queue, serial: maker.change(
        serial, queue, Event.GET, State.AVAILABLE, State.DELETED, outcome=Outcome.CONSUMED, flags=64
    ),
    "flags 16384": unknown_arrival_flag,
    "outcome 77": unknown_group,
}


@pytest.mark.parametrize("what", UNKNOWN)
@pytest.mark.parametrize("sealed", [False, True], ids=["journal", "events"])
def test_what_is_unknown_in_a_record_is_refused(tmp_path: Path, what: str, sealed: bool) -> None:
    def more(maker: LedgerMaker, queue: int, serial: int) -> None:
        UNKNOWN[what](maker, queue, serial)
        if sealed:
            maker.next_file()
            maker.seal(1)

    ledger = made(tmp_path / "ledger", more)
    before = contents(ledger)
    assert f"record 3: {what} is unknown here: a newer Postroom wrote it; upgrade this one" in refused(ledger)
    assert contents(ledger) == before
    assert any(f"position 3: {what} is unknown" in finding.what for finding in verify(ledger).findings)


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    for kind, more in {
        "queue": lambda maker, *_: maker.queue("later", brand_new=7),
        "topic": lambda maker, *_: maker.queue("later", kind="topic", brand_new=7),
        "quota": lambda maker, *_: maker.queue("later", kind="quota", brand_new=7),
        "remote": lambda maker, *_: maker.queue("later", kind="remote", remote_queue="q", brand_new=7),
        "channel": lambda maker, *_: maker.channel(5, name="later", type="receiver", brand_new="7"),
    }.items():
        line = refused(made(tmp_path / kind, more))
        assert f"{kind} 'later' has the setting 'brand_new', which is unknown here" in line
        assert "pip install --upgrade postroom" in line


def test_an_unknown_flag_of_a_block_is_refused(tmp_path: Path) -> None:
    ledger = made(tmp_path / "ledger")
    journal = ledger / journal_name(1)
    data = journal.read_bytes()
    first = data.index(BLOCK_MAGIC.to_bytes(4, "little"), data.index(BLOCK_MAGIC.to_bytes(4, "little")) + 1)
    patched(journal, first, BLOCK_HEADER.size_bytes, flags=(FLAGS_AT, b"\2\0\0\0"))
    assert "record 1: block flag 2 is unknown here" in refused(ledger)


@pytest.mark.parametrize("what", ["section", "definition", "version"])
def test_a_checkpoint_that_says_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It isn't passed over as a damaged one is, for the files that it stands for may have gone."""
    world = LedgerWorld(retention_bytes=0)
    world.queue("orders")
    fill(world)
    sections = checkpoint._sections

    def more(state: FoldState) -> dict[str, Bytes]:
        found = sections(state)
        if what == "section":
            return {**found, "novel": b"something"}
        definitions = np.frombuffer(found["dictionary"], TRANSITION_DTYPE).copy()
        definitions["type"][0] = 99
        return {**found, "dictionary": definitions.tobytes()}

    with monkeypatch.context() as newer:
        if what == "version":
            newer.setattr(checkpoint, "FORMAT_VERSION", NEWER)
        else:
            newer.setattr(checkpoint, "_sections", more)
        world.maintain()
    (tmp_path / "ledger").mkdir()
    world.write_out(tmp_path / "ledger")
    fields = {
        "section": "the section 'novel' of its checkpoint is unknown here",
        "definition": "record type 99 is unknown here",
        "version": f".checkpoint: format version {NEWER};",
    }
    assert fields[what] in refused(tmp_path / "ledger")
