"""verify, stats and dump: on whole ledgers they agree with what was written, damage they name."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from postroom.cli.ledger.ledger import EXIT_DAMAGED, ledger
from postroom.ledger.fold.checkpoint import load_checkpoint, write_checkpoint
from postroom.ledger.format.block import Group
from postroom.ledger.format.file_names import Listing
from postroom.ledger.format.layout import EVENTS_HEADER
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.dump import Filter, dump
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.reading.stats import stats
from postroom.ledger.verification.verification import Severity, verify
from tests.ledger.files import flip
from tests.ledger.ledger_maker import START_US, E, LedgerMaker, O, S
from tests.ledger.workload import Workload


def _whole(folder: Path) -> LedgerMaker:
    """Three files (one sealed, the last of a second epoch), two queues, every kind of record."""
    maker = LedgerMaker(folder)
    orders, other = maker.queue("orders"), maker.queue("other")
    maker.producer(3, "shop")
    first = maker.put(orders, message_id=b"m1", producer=3)
    maker.consume(first, orders)
    both = maker.put(maker.routing_set(orders, other), message_id=b"m2")
    maker.commit()
    maker.put(orders)
    maker.next_file()
    purged = Group(other, S.AVAILABLE, S.DELETED, O.PURGED, 0, 0, 0, [(both, both)])
    maker.group(E.PURGE, [purged])
    maker.commit()
    maker.fail(both, orders)
    maker.next_file(new_epoch=True)
    maker.put(other)
    maker.finish()
    maker.seal(1)
    return maker


def test_a_whole_ledger_is_whole(tmp_path: Path) -> None:
    _whole(tmp_path)
    done: list[tuple[int, int]] = []
    result = verify(tmp_path, bodies=True, progress=lambda n, of: done.append((n, of)))
    assert (result.is_whole, result.findings) == (True, [])
    assert (result.records, result.durable_through, result.bodies_checked) == (13, 13, 4)
    assert done[-1] == (5, 5)  # .events, .bodies, two journals, the superblock


def test_stats_count_by_queue_state_and_outcome(tmp_path: Path) -> None:
    _whole(tmp_path)
    counted = stats(tmp_path)
    by_name = {queue.queue: queue for queue in counted.queues}
    orders, other = by_name["orders"], by_name["other"]
    assert (orders.arrivals, orders.arrived_bytes) == (3, 15)
    assert (orders.states, orders.outcomes) == ({"available": 2}, {"consumed": 1})
    assert (other.states, other.outcomes, other.held) == ({"available": 1}, {"purged": 1}, 1)
    assert (counted.records, counted.rows, counted.epochs) == (13, 10, [1, 2])
    assert counted.is_complete
    assert [file.name for file in counted.files] == [
        "00000001.bodies",
        "00000001.events",
        "00000002.journal",
        "00000003.journal",
        "superblock",
    ]
    assert counted.size_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_dump_gives_every_row_in_order(tmp_path: Path) -> None:
    _whole(tmp_path)
    lines = list(dump(tmp_path, Filter()))
    assert [line["position"] for line in lines] == [1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12, 13]
    assert lines[0]["record"] == "queue_defined"
    assert lines[3]["message_id"] == "m1"
    assert lines[3]["producer"] == "app/shop"
    assert [(line["queue"], line.get("ordinal", 0)) for line in lines[7:9]] == [("orders", 0), ("other", 1)]
    assert lines[10]["outcome"] == "purged"
    assert (lines[12]["event"], lines[12]["failure_delta"]) == ("fail", 1)
    json.dumps(lines)


@pytest.mark.parametrize(
    ("wanted", "positions"),
    [
        (Filter(first=12), [12, 13]),
        (Filter(last=2), [1, 2]),
        (Filter(queue="other"), [8, 10, 13]),
        (Filter(serials=frozenset([4])), [4, 5, 6]),
        (Filter(serials=frozenset([8]), queue="orders"), [8, 11, 12]),
        (Filter(queue="nobody's"), []),
    ],
)
def test_dump_filters(tmp_path: Path, wanted: Filter, positions: list[int]) -> None:
    _whole(tmp_path)
    assert [line["position"] for line in dump(tmp_path, wanted)] == positions


def _in_events_section(folder: Path) -> None:
    flip(folder / "00000001.events", EVENTS_HEADER.size_bytes + 10)


def _in_events_header(folder: Path) -> None:
    flip(folder / "00000001.events", 50)


def _in_a_body(folder: Path) -> None:
    path = folder / "00000001.bodies"
    flip(path, path.read_bytes().index(b"hello"))


def _in_a_journal_block(folder: Path) -> None:
    path = folder / "00000002.journal"
    flip(path, len(path.read_bytes().rstrip(b"\0")) - 150)


def _without_a_file(folder: Path) -> None:
    (folder / "00000002.journal").unlink()


def _with_a_broken_checkpoint(folder: Path) -> None:
    (folder / f"{5:020d}.checkpoint").write_bytes(b"x" * 300)


@pytest.mark.parametrize(
    ("damage", "where", "what"),
    [
        (_in_events_section, "00000001.events", "a section"),
        (_in_events_header, "00000001.events", "the header is damaged"),
        (_in_a_body, "00000001.bodies", "a body of positions"),
        (_in_a_journal_block, "00000002.journal", "damaged"),
        (_without_a_file, "00000002.events", "missing"),
    ],
)
def test_each_damage_is_found_and_named(
    tmp_path: Path, damage: Callable[[Path], None], where: str, what: str
) -> None:
    _whole(tmp_path)
    damage(tmp_path)
    result = verify(tmp_path, bodies=True)
    assert not result.is_whole
    errors = result.of(Severity.ERROR)
    assert any(error.where == where and what in error.what for error in errors), result.findings


def _undefined_set(maker: LedgerMaker) -> None:
    maker.put(0x8000_0099)


def _group_from_the_future(maker: LedgerMaker) -> None:
    maker.group(E.PURGE, [Group(1, S.AVAILABLE, S.DELETED, O.PURGED, 0, 0, 0, [(1, 500)])])


def _serial_from_the_future(maker: LedgerMaker) -> None:
    maker.acquire(500, 1)


def _unknown_state(maker: LedgerMaker) -> None:
    maker.change(1, 1, E.GET, 99, S.DELETED)


def _unknown_type(maker: LedgerMaker) -> None:
    maker.builder.record(77, 0, 0, 0, 0, 0, b"")


def _no_json(maker: LedgerMaker) -> None:
    maker.builder.record(RecordType.QUEUE_DEFINED, 0, 9, 0, 0, 0, b"{not json")


def _half_an_id(maker: LedgerMaker) -> None:
    maker.builder.record(RecordType.ROUTING_SET_DEFINED, 0, 0, 0x8000_0001, 0, 0, b"\x01\0\0\0\x02\0")


def _no_lease(maker: LedgerMaker) -> None:
    maker.builder.record(RecordType.LEASE_GRANTED, 0, 0, 1, 0, 0, b'{"name": "reader"}')


def _no_checkpoint(maker: LedgerMaker) -> None:
    maker.builder.record(RecordType.CHECKPOINT_WRITTEN, 1, 0, 0, 0, 0, b"[]")


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (_undefined_set, "routing set 0x80000099 is not defined"),
        (_group_from_the_future, "a range reaches its own position"),
        (_serial_from_the_future, "position 2: its serial is not before it"),
        (_unknown_state, "position 2: from_state 99 is unknown to this version"),
        (_unknown_type, "position 2: record type 77 is unknown to this version"),
        (_no_json, "record 2: its detail is no JSON"),
        (_half_an_id, "record 2: its detail of 6 bytes is no list of queue ids"),
        (_no_lease, "record 2: its detail tells of no lease"),
        (_no_checkpoint, "position 2: its detail tells of no checkpoint"),
    ],
)
def test_a_record_that_makes_no_sense_is_named_with_its_position(
    tmp_path: Path, write: Callable[[LedgerMaker], None], what: str
) -> None:
    maker = LedgerMaker(tmp_path)
    maker.queue("q")
    write(maker)
    maker.finish()
    findings = verify(tmp_path).findings
    assert {finding.severity for finding in findings} == {Severity.ERROR}
    assert all(what in finding.what for finding in findings)


def test_a_damaged_checkpoint_is_a_warning_while_others_serve(tmp_path: Path) -> None:
    _whole(tmp_path)
    _with_a_broken_checkpoint(tmp_path)
    result = verify(tmp_path)
    (finding,) = result.findings
    assert (result.is_whole, finding.severity, finding.where) == (
        True,
        Severity.WARNING,
        "00000000000000000005.checkpoint",
    )
    assert "header or directory is damaged: passed over" in finding.what
    code, out, _ = _run("verify", "--data", str(tmp_path))
    assert code == 0 and out.endswith("whole, 1 warning\n")


def test_what_is_no_damage_is_a_note(tmp_path: Path) -> None:
    maker = _whole(tmp_path)
    with (tmp_path / "00000003.journal").open("ab") as file:
        file.write(b"half a block")
    (tmp_path / "00000004.events.tmp").write_bytes(b"")
    result = verify(maker.folder)
    assert result.is_whole
    notes = {finding.where: finding.what for finding in result.findings}
    assert "a torn block, never acknowledged" in notes["00000003.journal"]
    assert notes["00000004.events.tmp"].startswith("unfinished")


def _small_ledger(folder: Path) -> Ledger:
    options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0)
    return Ledger.open(folder, options, START_US, maintenance="manual")


def test_stats_tell_of_leases_without_a_broker(tmp_path: Path) -> None:
    running = _small_ledger(tmp_path)
    running.leases.grant("held", "ann", START_US)
    running.leases.grant("gone", "", START_US)
    running.leases.grant("short", "bob", START_US, duration_s=1)
    running.leases.release("gone", START_US)
    running.tend(START_US + 1_000_000)
    running.close()
    again = _small_ledger(tmp_path)  # whose file opens with what is in force
    again.close()
    held, short = stats(tmp_path).leases
    assert [held, short] == again.leases.all()
    assert (held.owner, held.in_force, short.reason) == ("ann", True, "time")
    code, out, _ = _run("stats", "--data", str(tmp_path))
    assert code == 0
    assert "from position" in out and "bob" in out
    assert json.loads(_run("stats", "--data", str(tmp_path), "--json")[1])["leases"][1]["reason"] == "time"


def test_a_checkpoint_must_be_the_one_that_was_recorded(tmp_path: Path) -> None:
    running = _small_ledger(tmp_path)
    work = Workload(running.builder, Random(1))
    work.define()
    while not Listing([path.name for path in tmp_path.iterdir()]).checkpoints:
        work.step()
        running.flush()
        running.maintenance_step()
    work.step()
    running.tend(START_US)
    running.close()
    assert verify(tmp_path).is_whole
    (position,) = Listing([path.name for path in tmp_path.iterdir()]).checkpoints
    with folder_of(tmp_path) as disk:
        state = load_checkpoint(disk, position, None)
        state.totals["arrived"] += 1
        write_checkpoint(disk, state, running.ledger_id.bytes)
    (finding,) = verify(tmp_path).findings
    assert (finding.where, finding.severity is Severity.ERROR) == (f"{position:020d}.checkpoint", True)
    assert "isn't the checkpoint that the ledger recorded" in finding.what


def _run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(ledger, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_the_commands_print_for_people_and_for_scripts(tmp_path: Path) -> None:
    _whole(tmp_path)
    data = ("--data", str(tmp_path))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    whole = f"5 files, {size:,} bytes, positions 1 to 13, 13 records, 4 bodies read: whole\n"
    assert _run("verify", *data, "--bodies") == (0, whole, "")
    code, out, _ = _run("stats", *data)
    assert code == 0
    assert "orders" in out
    assert "durable through position 13" in out
    assert json.loads(_run("stats", *data, "--json")[1])["records"] == 13
    code, out, _ = _run("dump", *data, "--serial", "4")
    assert out.splitlines()[1].split()[2:7] == ["orders/4", "acquire:", "available", "→", "get_unconfirmed"]
    assert json.loads(_run("dump", *data, "--json", "--from", "13")[1])["queue"] == "other"


def test_a_record_that_makes_no_sense_is_one_line_for_every_command(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    _no_json(maker)
    maker.finish()
    for command in ("stats", "dump"):
        code, _, err = _run(command, "--data", str(tmp_path))
        assert (code, err.count("\n")) == (1, 1)
        assert "record 1: its detail is no JSON" in err


def test_damage_and_absence_have_codes_of_their_own(tmp_path: Path) -> None:
    _whole(tmp_path)
    _in_events_section(tmp_path)
    code, out, _ = _run("verify", "--data", str(tmp_path))
    assert code == EXIT_DAMAGED
    assert out.splitlines()[0].startswith("error    00000001.events: byte")
    assert out.splitlines()[-1].endswith("damaged: 1 error")
    for command in ("verify", "stats", "dump"):
        code, out, err = _run(command, "--data", str(tmp_path / "nowhere"))
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "no ledger here" in err
