"""Options by which a queue treats what fails as Solace and Artemis do: delays that grow, letters that must be
eligible, times to live that don't count, a window of what is not acknowledged."""

import pytest

from postroom.manager.consuming.settlement import Modification
from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.options import QueueDefinition
from postroom.model.codes import Outcome
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import MS, World


def _delays_ms(world: World, failures: int, **definition: int) -> list[int]:
    """How long each failure of one message keeps it, by the whole ms."""
    queue = world.queue(**definition)
    consumer = world.consumer(queue, credit=failures + 1, redelivery_delay_ms=7)
    world.put(queue)
    delays = []
    for _ in range(failures):
        world.turn()
        world.fail(consumer, world.held(consumer)[0])
        waited = 0
        while not world.held(consumer):
            waited += 1
            world.turn(1)
        delays.append(waited)
    return delays


def test_a_delay_grows_with_each_failure(world: World) -> None:
    delays = _delays_ms(world, 4, redelivery_delay_ms=10, redelivery_delay_multiplier_percent=200)
    assert delays == [10, 20, 40, 80]


def test_it_grows_to_ten_times_the_first(world: World) -> None:
    delays = _delays_ms(world, 6, redelivery_delay_ms=10, redelivery_delay_multiplier_percent=300)
    assert delays == [10, 30, 90, 100, 100, 100]


def test_it_grows_to_what_the_queue_says(world: World) -> None:
    definition = {"redelivery_delay_multiplier_percent": 150, "max_redelivery_delay_ms": 16}
    assert _delays_ms(world, 4, redelivery_delay_ms=8, **definition) == [8, 12, 16, 16]


def test_the_delay_of_the_consumer_grows_too(world: World) -> None:
    assert _delays_ms(world, 3, redelivery_delay_multiplier_percent=200) == [7, 14, 28]


def test_without_a_multiplier_it_stays(world: World) -> None:
    assert _delays_ms(world, 3, redelivery_delay_ms=5, max_redelivery_delay_ms=3) == [5, 5, 5]


def _requested_delays_ms(world: World, requested_ms: int, **definition: int) -> list[int]:
    """How long each of two failures keeps a message whose consumer requests so many ms, the second in a
    transaction.
    """
    queue = world.queue(**definition)
    consumer = world.consumer(queue, credit=3, redelivery_delay_ms=7)
    world.put(queue)
    delays = []
    for within in (False, True):
        world.turn()
        transaction = world.manager.begin(world.now_us) if within else None
        entry = world.held(consumer)[0]
        change = Modification(True, delay_us=requested_ms * MS)
        world.manager.modify(consumer, entry, change, world.now_us, -1, transaction)
        if transaction is not None:
            world.manager.commit(transaction, world.now_us)
        waited = 0
        while not world.held(consumer):
            waited += 1
            world.turn(1)
        delays.append(waited)
    return delays


def test_a_delay_that_an_outcome_asks_for_beats_all_others_and_does_not_grow(world: World) -> None:
    definition = {"redelivery_delay_ms": 20, "redelivery_delay_multiplier_percent": 200}
    assert _requested_delays_ms(world, 3, **definition) == [3, 3]


def test_it_may_be_longer_than_the_delay_of_the_queue_grows(world: World) -> None:
    assert _requested_delays_ms(world, 30, max_redelivery_delay_ms=11) == [30, 30]


def test_the_last_reason_is_told_with_the_dead_letter(world: World) -> None:
    queue, dead = world.queue(dead_letter_queue="dead", redelivery_limit=0), world.queue("dead")
    consumer, letters = world.consumer(queue, credit=1), world.consumer(dead, credit=1)
    world.put(queue)
    world.turn()
    fields: dict[str, object] = {"x-opt-failure-reason": "no such city"}
    world.manager.modify(consumer, world.held(consumer)[0], Modification(True, False, fields), world.now_us)
    world.turn()
    (letter,) = world.held(letters)
    assert letter.annotations is not None
    annotations = letter.annotations["x-opt-dead-letter-description"]
    assert annotations == "1 failures, limit 0; the last: no such city"


def _dead_letters(world: World, **definition: object) -> list[bytes]:
    """What is on the dead-letter queue after two messages, one of them eligible, failed too often."""
    queue = world.queue(dead_letter_queue="dead", redelivery_limit=0, **definition)
    world.put(queue, b"plain")
    world.put(queue, b"eligible", eligible=True)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    for entry in world.held(consumer):
        world.fail(consumer, entry)
    world.turn()
    return _bodies(world, "dead")


def _bodies(world: World, name: str) -> list[bytes]:
    queue = world.manager.queues.get(name)
    if queue is None:
        return []
    world.consumer(queue, credit=10)
    return world.turn()


def test_all_become_dead_letters_unless_the_queue_asks(world: World) -> None:
    assert _dead_letters(world) == [b"plain", b"eligible"]


def test_only_eligible_ones_become_dead_letters_where_it_does(world: World) -> None:
    assert _dead_letters(world, dead_letter_eligible_only=True) == [b"eligible"]
    assert world.manager.queue("q").statistics.ended[Outcome.DISCARDED] == 1


def test_rejected_ones_too(world: World) -> None:
    queue = world.queue(dead_letter_queue="dead", dead_letter_eligible_only=True)
    world.put(queue, b"plain")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "", "", world.now_us)
    world.turn()
    assert "dead" not in world.manager.queues


def test_only_eligible_ones_are_redirected_when_they_expire(world: World) -> None:
    queue = world.queue(
        dead_letter_queue="dead", expiration_policy="redirect", dead_letter_eligible_only=True
    )
    world.put(queue, b"plain", ttl_ms=1)
    world.put(queue, b"eligible", ttl_ms=1, eligible=True)
    world.turn(1000)
    assert _bodies(world, "dead") == [b"eligible"]
    assert queue.statistics.ended[Outcome.EXPIRED] == 1


def test_eligibility_survives_a_restart() -> None:
    world = LedgerWorld()
    world.queue(dead_letter_queue="dead", redelivery_limit=0, dead_letter_eligible_only=True)
    world.put(world.manager.queue("q"), b"eligible", eligible=True)
    world.restart()
    consumer = world.consumer(world.manager.queue("q"), credit=1)
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    world.turn()
    assert _bodies(world, "dead") == [b"eligible"]


def test_times_to_live_don_t_count_where_they_are_not_respected(world: World) -> None:
    queue = world.queue(respect_ttl=False)
    world.put(queue, b"long", ttl_ms=1)
    world.turn(1000)
    assert queue.statistics.depth == 1


def test_the_queue_s_own_limit_counts_even_then(world: World) -> None:
    queue = world.queue(respect_ttl=False, max_ttl_ms=50)
    world.put(queue, b"long", ttl_ms=1)
    world.turn(49)
    assert queue.statistics.depth == 1
    world.turn(1000)
    assert queue.statistics.depth == 0


def test_a_consumer_has_no_more_unsettled_than_the_window(world: World) -> None:
    queue = world.queue(max_unsettled_per_consumer=2)
    for number in range(4):
        world.put(queue, b"%d" % number)
    consumer = world.consumer(queue, credit=10)
    assert world.turn() == [b"0", b"1"]
    world.accept(consumer, world.held(consumer)[0])
    assert world.turn() == [b"2"]


@pytest.mark.parametrize(
    "settings",
    [
        {"max_unsettled_per_consumer": 0},
        {"redelivery_delay_multiplier_percent": 99},
        {"max_redelivery_delay_ms": -2},
    ],
)
def test_definitions_that_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(DefinitionInvalid, match=next(iter(settings))):
        QueueDefinition("q", **settings).check()  # type: ignore[arg-type]
