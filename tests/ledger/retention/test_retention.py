"""How long history stays: by bytes, by age, by leases, never before two checkpoints cover it, never while it
lives.
"""

import json

import pytest

from postroom.ledger.errors import LeaseTooOld, LedgerCorrupt
from postroom.ledger.format.file_names import checkpoint_name
from postroom.ledger.format.headers import header_crc_of
from postroom.ledger.format.records import RecordType
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.events_image import load_image
from postroom.ledger.verification.acceptance import accept_found
from tests.ledger.retention.short_history import BODY, Broker


def options(**changes: float) -> LedgerOptions:
    fixed = {"journal_file_bytes": 64 << 10, "reserve_bytes": 0}
    return LedgerOptions(**(fixed | changes))  # type: ignore[arg-type]


def test_history_is_kept_up_to_a_size() -> None:
    broker = Broker(options(retention_bytes=60_000), keep_every=100)
    broker.put(1500)
    sizes = [broker.disk.files[f"{number:08d}.events"].size_bytes() for number in broker.files().events]
    assert 30_000 < sum(sizes) <= 60_000 + max(sizes) * 2
    assert broker.files().events[0] > 1
    broker.check()


def test_history_is_kept_up_to_an_age() -> None:
    broker = Broker(options(retention_s=300), keep_every=100)
    broker.put(1500)
    oldest = broker.files().events[0]
    assert oldest > 1
    young = Broker(options(retention_s=3000), keep_every=100)
    young.put(1500)
    assert young.files().events[0] == 1
    broker.check()


def test_everything_is_kept_by_default() -> None:
    broker = Broker(options(), keep_every=100)
    broker.put(1500)
    assert broker.files().events[0] == 1
    broker.check()


def test_history_goes_only_under_two_checkpoints() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=100)
    while not broker.files().events:
        broker.put(10)
    assert len(broker.files().checkpoints) == 1
    broker.put(10)
    assert broker.files().events == [1]
    broker.check()


def test_what_is_mostly_live_is_no_history() -> None:
    """Nothing is consumed: every file stays, however little history is wanted, and nothing is carried."""
    broker = Broker(options(retention_bytes=0), keep_every=1)
    broker.put(600)
    assert broker.files().events[0] == 1
    newest = broker.disk.files[f"{broker.files().checkpoints[-1]:020d}.checkpoint"]
    assert newest.size_bytes() < 3000
    broker.check()


def test_a_straggler_outlives_its_file() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=500)
    broker.put(3000)
    assert broker.files().events[0] > 3
    assert not broker.files().bodies or broker.files().bodies[0] > 3
    assert len(broker.kept) == 6
    broker.check()


def test_a_lease_keeps_what_retention_would_drop() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=500)
    broker.put(600)
    lease = broker.ledger.leases.grant("reader", "", broker.now_us())
    broker.put(1500)
    assert broker.oldest_position() <= lease.position
    assert broker.bodies_behind(lease.position)[0] == b"", "without bodies unless they are asked for"
    held = broker.ledger.leases.held_bytes(lease)
    files = broker.files().events[:-1]  # the newest is covered by one checkpoint only
    assert held == sum(broker.disk.files[f"{number:08d}.events"].size_bytes() for number in files)
    broker.check()
    assert broker.ledger.leases.get("reader") == lease
    broker.put(300)
    assert broker.oldest_position() <= lease.position
    broker.ledger.leases.renew("reader", broker.now_us(), position=broker.ledger.builder.next_position)
    broker.settle()
    assert broker.oldest_position() > lease.position
    broker.check()


def test_a_tap_keeps_the_bodies_of_what_has_ended() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=500)
    broker.put(600)
    lease = broker.ledger.leases.grant("tap", "", broker.now_us(), bodies=True)
    broker.put(1500)
    assert set(broker.bodies_behind(lease.position)) == {BODY}
    broker.check()
    broker.put(300)
    assert set(broker.bodies_behind(lease.position)) == {BODY}
    bodies_bytes = sum(f.size_bytes() for name, f in broker.disk.files.items() if name.endswith(".bodies"))
    assert 0.5 * bodies_bytes < broker.ledger.leases.held_bytes(lease) < 2 * bodies_bytes
    broker.ledger.leases.release("tap", broker.now_us())
    broker.settle()  # no new checkpoint is needed for it
    assert broker.bodies_behind(lease.position)[0] == b""
    broker.check()


def test_a_lease_that_keeps_too_much_is_broken_and_its_files_go() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=500)
    lease = broker.ledger.leases.grant("slow", "", broker.now_us(), max_bytes=50_000)
    while broker.ledger.leases.get("slow").in_force:
        broker.put(10)
    broken = broker.ledger.leases.get("slow")
    assert (broken.reason, broken.position) == ("bytes", lease.position)
    assert broken.held_bytes > 50_000
    broker.settle()
    missing = broker.ledger.leases.missing(broken)
    assert missing == (lease.position, broker.oldest_position() - 1)
    broker.check()
    assert broker.ledger.leases.get("slow") == broken
    assert broker.ledger.leases.missing(broken) == missing
    with pytest.raises(LeaseTooOld):
        broker.ledger.leases.grant("slow", "", broker.now_us(), lease.position)


def test_a_lease_is_broken_when_its_time_is_over_also_over_a_restart() -> None:
    broker = Broker(options(retention_bytes=0), keep_every=500)
    lease = broker.ledger.leases.grant("slow", "", broker.now_us(), duration_s=1000)
    broker.put(900)
    assert broker.oldest_position() <= lease.position
    broker.check()
    broker.put(200)
    assert broker.ledger.leases.get("slow").reason == "time"
    assert broker.oldest_position() > lease.position
    broker.check()


def test_without_its_files_a_lease_is_broken_at_the_start() -> None:
    """Somebody removed history by hand, which no checkpoint needs, and its owner accepts that."""
    broker = Broker(options(retention_bytes=0), keep_every=5000)
    broker.ledger.leases.grant("reader", "", broker.now_us())
    broker.put(900)
    broker.disk.remove(f"{broker.files().events[0]:08d}.events")
    broker.disk = broker.disk.copy()
    with pytest.raises(
        LedgerCorrupt,
        match=r"missing: nothing is there of positions 1 to \d+, and retention has dropped nothing",
    ):
        broker.open()
    accept_found(broker.disk)
    broker.ledger = broker.open()
    (broken,) = broker.ledger.tend(broker.now_us())
    assert broken.reason == "missing"
    assert broker.ledger.leases.missing(broken).last == broker.oldest_position() - 1


def test_checkpoints_are_recorded_with_what_vouches_for_them() -> None:
    broker = Broker(options(), keep_every=100)
    broker.put(1500)
    recorded = {}
    for number in broker.files().events:
        image = load_image(broker.disk, number)
        for row in image.own_transitions()[image.own_types == RecordType.CHECKPOINT_WRITTEN]:
            start = int(row["detail_offset"])
            detail = json.loads(bytes(image.names[start : start + int(row["detail_len"])]))
            recorded[int(row["serial"])] = detail
    oldest = min(broker.files().checkpoints)
    content = bytes(broker.disk.files[checkpoint_name(oldest)].now)
    assert recorded[oldest] == {"bytes": len(content), "header_crc": header_crc_of(content)}
    assert len(recorded) > 2, "those that have gone since were recorded, too"
