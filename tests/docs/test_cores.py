"""The arithmetic behind the page on cores: bounds, threads by role, samples by room."""

import pytest
from bench import cores_model, loop_rooms, thread_times
from bench.cores_model import Costs, Handed, Limits

COSTS = Costs(
    loop_us=2.0,
    framing_us=1.0,
    commit_us=0.5,
    maintenance_us=0.5,
    copies=4,
    bytes_copied=1_000,
    bytes_synced=1_000,
)
BOUNDLESS = Limits(copied=1e18, synced=1e18)


def stat_of(user: int, kernel: int, name: str = "a (name) here") -> str:
    fields = ["S"] + ["0"] * 10 + [str(user), str(kernel), "0", "0", "0", "0"]
    return f"7 ({name}) {' '.join(fields)}"


def test_one_loop_is_bounded_by_the_loop_however_many_cores_there_are() -> None:
    found = [cores_model.one_loop(COSTS, BOUNDLESS, cores) for cores in (1, 2, 4, 16)]
    assert [round(each.rate) for each in found] == [333_333, 500_000, 500_000, 500_000]
    assert [each.by for each in found] == ["all cores", *["event loop"] * 3]
    assert {each.sum_us for each in found} == {3.0}


def test_framing_outside_costs_the_hand_over_and_is_bounded_by_the_engine() -> None:
    handed = Handed(connections_us=0.25, engine_us=0.25)
    few, many = (cores_model.framing_outside(COSTS, handed, BOUNDLESS, cores) for cores in (2, 16))
    assert (few.by, many.by) == ("all cores", "engine")
    assert [few.rate, many.rate] == pytest.approx([2e6 / 3.5, 8e5])
    assert many.sum_us == pytest.approx(3.5)


def test_queue_managers_side_by_side_grow_with_the_cores_and_share_the_disk() -> None:
    found = [cores_model.several_managers(COSTS, COSTS, 0, BOUNDLESS, cores) for cores in (2, 4, 16)]
    assert [each.rate for each in found] == [pytest.approx(cores * 1e6 / 3) for cores in (2, 4, 16)]
    bounded = cores_model.several_managers(COSTS, COSTS, 0, Limits(1e18, 9e8), 16)
    assert (bounded.by, bounded.disk_rate) == ("all cores", 9e5)


def test_messages_that_a_channel_passes_on_cost_once_more() -> None:
    alone = cores_model.several_managers(COSTS, COSTS, 0, BOUNDLESS, 4)
    joined = cores_model.several_managers(COSTS, COSTS, 0.75, BOUNDLESS, 4)
    assert joined.sum_us == pytest.approx(1.75 * alone.sum_us)
    assert joined.rate == pytest.approx(alone.rate / 1.75)


def test_memory_bounds_what_is_copied() -> None:
    found = cores_model.one_loop(COSTS, Limits(copied=4e8, synced=1e18), 16)
    assert (found.by, found.rate) == ("memory", 1e5)


def test_threads_are_told_apart_by_their_names() -> None:
    assert thread_times.role_of(True, stat_of(1, 1, "python")) == thread_times.LOOP
    assert thread_times.role_of(False, stat_of(1, 1, "ledger-writer")) == thread_times.COMMIT
    assert thread_times.role_of(False, stat_of(1, 1, "python")) == thread_times.OTHERS
    assert thread_times.role_of(False, stat_of(1, 1)) == thread_times.OTHERS


def test_processor_times_are_read_behind_a_name_with_brackets() -> None:
    times = thread_times.times_of(stat_of(150, 50))
    assert times.user_s == 3 * times.kernel_s
    assert (times + times - times).both_s == pytest.approx(times.both_s)


def test_samples_are_counted_by_room() -> None:
    samples = """
        7f00 CPyDef_postroom___amqp___frames___frames___FrameDecoder___next (/b/postroom_wire__mypyc.so)
        7f01 CPyDef_postroom___manager___producing___put___put_message (/b/postroom_core__mypyc.so)
        7f02 __memmove_avx512_unaligned_erms (/usr/lib/libc.so.6)
    ffffffff do_syscall_64 ([kernel.kallsyms])
    """
    found = loop_rooms.shares(samples)
    assert found == {"amqp": 0.25, "kernel": 0.25, "manager": 0.25, "copies and memory": 0.25}
    assert loop_rooms.movable(found) == pytest.approx(2 / 3)
    assert loop_rooms.shares("") == {}
    assert loop_rooms.movable({}) == 0
