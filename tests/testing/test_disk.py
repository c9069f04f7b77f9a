"""The disk in memory: what was synced is there after a power cut, and nothing else is."""

import errno

import pytest

from postroom.testing.disk import MemoryDisk


def test_a_power_cut_leaves_what_was_synced_and_nothing_else() -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    disk.sync_names()
    file.write_at(0, [b"one", bytearray(b"two")])
    file.sync()
    file.write_at(6, [memoryview(b"three")])
    file.extend(100)
    assert file.read_at(0, 11) == b"onetwothree"
    assert disk.cut_power().open("a").view() == b"onetwo"


def test_a_power_cut_undoes_names_that_were_not_synced() -> None:
    disk = MemoryDisk()
    for name in ("kept", "renamed", "removed"):
        disk.create(name).write_at(0, [name.encode()])
        disk.open(name).sync()
    disk.sync_names()
    disk.create("new").sync()
    disk.rename("renamed", "other")
    disk.remove("removed")
    assert disk.names() == ["kept", "new", "other"]
    assert {name: bytes(content) for name, content in disk.durable().items()} == {
        "kept": b"kept",
        "renamed": b"renamed",
        "removed": b"removed",
    }
    survived = disk.cut_power()
    assert survived.names() == ["kept", "removed", "renamed"]
    assert survived.cut_power().names() == ["kept", "removed", "renamed"]


def test_a_disk_without_power_gives_errors() -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    disk.cut_power()
    actions = (
        lambda: file.write_at(0, [b"late"]),
        file.sync,
        file.view,
        disk.names,
        disk.sync_names,
        lambda: disk.create("b"),
    )
    for action in actions:
        with pytest.raises(OSError) as caught:
            action()
        assert caught.value.errno == errno.EIO


def test_what_was_reserved_can_be_written_on_a_full_disk_and_no_more() -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    file.reserve(0, 100)
    disk.fill()
    assert disk.free_bytes() == 0
    file.write_at(0, [bytes(100)])
    with pytest.raises(OSError) as caught:
        file.write_at(100, [b"x"])
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError):
        disk.create("b").reserve(0, 1)
    disk.free()
    file.write_at(100, [b"x"])
    assert file.size_bytes() == 101


def test_what_is_trimmed_is_free_again() -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    file.write_at(0, [b"content"])
    file.reserve(7, 1000)
    disk.fill()
    disk.trim("a")
    assert (disk.free_bytes(), file.read_at(0, 7)) == (1000, b"content")


def test_files_that_are_not_there_are_not_found() -> None:
    disk = MemoryDisk()
    for action in (disk.open, disk.update, disk.remove, disk.trim, lambda name: disk.rename(name, "b")):
        with pytest.raises(FileNotFoundError):
            action("a")


def test_reading_beyond_the_end_gives_what_there_is() -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    file.write_at(2, [b"x"])
    buffer = bytearray(8)
    assert file.read_into(1, memoryview(buffer)) == 2
    assert (file.read_at(0, 99), buffer[:2]) == (b"\0\0x", b"\0x")
