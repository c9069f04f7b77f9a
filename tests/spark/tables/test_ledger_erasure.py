"""What docs/howto/personal-data.md says of the ledger: what is left of a message after it has ended."""

from tests.manager.over_ledger import LedgerWorld

BODY, MESSAGE_ID = b"Mrs Smith, 4 Privet Drive", b"order-of-mrs-smith"


def lived_through(retention_bytes: int) -> LedgerWorld:
    """One message, consumed, and then so much traffic that its journal is sealed, check-pointed and
    compacted."""
    world = LedgerWorld(retention_bytes=retention_bytes)
    queue = world.queue("q")
    consumer = world.consumer(queue, credit=10_000)
    world.put(queue, BODY, message_id=MESSAGE_ID.decode())
    for _ in range(60):
        world.put(queue, b"x" * 4000)
        world.turn(10)
        for entry in world.held(consumer):
            world.accept(consumer, entry)
        world.turn()
        world.maintain()
    return world


def holding(world: LedgerWorld, text: bytes) -> list[str]:
    return [name for name in world.disk.names() if text in bytes(world.disk.open(name).view())]


def test_a_body_goes_when_its_message_has_ended_and_its_file_is_compacted() -> None:
    world = lived_through(16 << 30)
    assert holding(world, BODY) == []


def test_ids_go_with_the_history() -> None:
    assert all(name.endswith(".events") for name in holding(lived_through(16 << 30), MESSAGE_ID))
    assert holding(lived_through(16 << 30), MESSAGE_ID) != []
    assert holding(lived_through(0), MESSAGE_ID) == []
