"""Worlds: two queue managers for every step of a batch, three for everything else."""

from random import Random

from tests.simulation.channels.world import Scenario

DEAD = "dead"
REPLIES = "replies"
Table = dict[str, object]


def channel(name: str, kind: str, **settings: object) -> Table:
    """One end of a channel, soon to retry and never asleep."""
    quick: Table = {
        "short_retry_interval_s": 1,
        "long_retry_interval_s": 2,
        "heartbeat_interval_s": 0,
        "message_retry_count": 1,
        "message_retry_interval_ms": 10,
    }
    return {"name": name, "type": kind, **quick, **settings}


def node(queues: list[Table], channels: list[Table], remotes: list[Table] | None = None) -> Table:
    """One queue manager's settings, with a dead-letter queue and one for replies."""
    always: list[Table] = [{"name": DEAD}, {"name": REPLIES}]
    return {
        "queue": [*always, *queues],
        "channel": channels,
        "remote_queue": remotes or [],
        "queue_manager": {"dead_letter_queue": DEAD},
    }


def transmission(name: str) -> Table:
    return {"name": name, "usage": "transmission"}


def pair(messages: int, batch_size: int, speed: str = "fast", requester: bool = False) -> Scenario:
    """A sender and a receiver, or a server and the requester that calls it."""
    settings: Table = {"batch_size": batch_size, "nonpersistent_speed": speed}
    sending: Table = {"transmission_queue": "PARIS", **settings}
    if requester:
        sender = channel("LONDON.PARIS", "server", **sending)
        receiver = channel("LONDON.PARIS", "requester", connection="amqp://LONDON:1", **settings)
    else:
        sender = channel("LONDON.PARIS", "sender", connection="amqp://PARIS:1", **sending)
        receiver = channel("LONDON.PARIS", "receiver", **settings)
    return Scenario(
        nodes={
            "LONDON": node([transmission("PARIS")], [sender]),
            "PARIS": node([{"name": "orders"}], [receiver]),
        },
        tasks=[("LONDON", "orders@PARIS", messages, False)],
        expected={"orders@PARIS": ("PARIS", "orders")},
    )


def wrapping() -> Scenario:
    """The sequence numbers begin anew in the middle."""
    scenario = pair(8, 3)
    for settings in scenario.nodes.values():
        for each in settings["channel"]:  # type: ignore[attr-defined]
            each["sequence_wrap"] = 100
    scenario.first_sequence = 97
    return scenario


def without_dead_letters(speed: str = "normal") -> Scenario:
    """A queue that is not there yet, and nowhere else to put its messages: the batch is refused until
    somebody has made the queue."""
    scenario = pair(5, 2, speed)
    scenario.tasks = [("LONDON", "late@PARIS", 4, False), ("LONDON", "orders@PARIS", 6, False)]
    scenario.persistent = ["late@PARIS"]
    scenario.expected["late@PARIS"] = ("PARIS", "late")
    scenario.late_queues = [("PARIS", "late")]
    del scenario.nodes["PARIS"]["queue_manager"]
    return scenario


def triangle(random: Random) -> Scenario:
    """LONDON → PARIS → ROME and back; messages for ROME go by PARIS; some have nowhere to go."""
    names = [("LONDON", "PARIS"), ("PARIS", "ROME"), ("ROME", "PARIS"), ("PARIS", "LONDON")]
    channels: dict[str, list[Table]] = {"LONDON": [], "PARIS": [], "ROME": []}
    for source, target in names:
        settings: Table = {
            "batch_size": random.choice((1, 2, 5, 50)),
            "nonpersistent_speed": random.choice(("fast", "fast", "normal")),
            "sequence_wrap": random.choice((100, 999_999_999)),
        }
        name = f"{source}.{target}"
        sending: Table = {
            "connection": f"amqp://{target}:1",
            "transmission_queue": target,
            "batch_interval_ms": random.choice((0, 0, 5)),
            "batch_heartbeat_ms": random.choice((0, 0, 1)),
            "disconnect_interval_s": random.choice((0, 1, 6000)),
        }
        channels[source].append(channel(name, "sender", **settings, **sending))
        channels[target].append(channel(name, "receiver", **settings))
    by_paris = {"remote_queue": "", "transmission_queue": "PARIS"}
    return Scenario(
        nodes={
            "LONDON": node(
                [{"name": "answers"}, transmission("PARIS")],
                channels["LONDON"],
                [{"name": "ROME", "remote_queue_manager": "ROME", **by_paris}],
            ),
            "PARIS": node(
                [
                    {"name": "orders"},
                    {"name": "small", "max_messages": 3},
                    transmission("ROME"),
                    transmission("LONDON"),
                ],
                channels["PARIS"],
            ),
            "ROME": node(
                [{"name": "archive"}, transmission("PARIS")],
                channels["ROME"],
                [{"name": "LONDON", "remote_queue_manager": "LONDON", **by_paris}],
            ),
        },
        tasks=[
            ("LONDON", "orders@PARIS", random.randrange(30), False),
            ("LONDON", "archive@ROME", random.randrange(30), False),
            ("ROME", "answers@LONDON", random.randrange(30), False),
            ("PARIS", "archive@ROME", random.randrange(20), False),
            ("LONDON", "small@PARIS", random.randrange(12), False),
            ("LONDON", "nowhere@PARIS", random.randrange(6), False),
            ("LONDON", "nobody@ROME", random.randrange(6), True),
        ],
        expected={
            "orders@PARIS": ("PARIS", "orders"),
            "archive@ROME": ("ROME", "archive"),
            "answers@LONDON": ("LONDON", "answers"),
            "nowhere@PARIS": ("PARIS", DEAD),
            "nobody@ROME": ("LONDON", REPLIES),
        },
        takers=[("PARIS", "orders"), ("PARIS", "small"), ("ROME", "archive")],
    )
