"""Dead letters for tests of the commands that handle them."""

import itertools

from postroom.amqp.encoding.types import Int
from postroom.client import Message

NUMBERS = itertools.count(1)


Q_FULL = 2053


def dead_letter(
    body: str, destination: str = "TARGET", reason: int = Q_FULL, manager: str = "HERE", **more: object
) -> Message:
    header = {
        "reason": Int(reason),
        "queue": destination,
        "queue-manager": manager,
        "format": "MQSTR",
        "put-date": "20261122",
        "put-time": "01020304",
    }
    settings: dict[str, object] = {
        "message_id": f"id-{body}",
        "annotations": {"x-opt-dead-letter": header, "x-opt-own": "kept"},
        "properties": {"n": 7},
        "durable": True,
    }
    return Message(body, **(settings | more))  # type: ignore[arg-type]
