"""A channel under mishaps in any order: what was stored arrives once and in order, what travels fast at most
once and in order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.amqp.message.sections import Header, Message, Value
from postroom.model.channel_states import ChannelState
from tests.channel.making import A_TO_B, receiver, sender, two
from tests.channel.pair import Client, Place, World
from tests.sampling import examples

EVENTS = (
    "durable",
    "durable",
    "fast",
    "round",
    "round",
    "round",
    "time",
    "cut",
    "crash A",
    "crash B",
    "reset",
)


class Story:
    """One course of events."""

    def __init__(self, batch_size: int, piece_bytes: int, interval_ms: int) -> None:
        sending = sender(batch_size=batch_size, batch_interval_ms=interval_ms, short_retry_count=10_000)
        self.world, self.a, self.b = two(sending, receiver())
        self.world.piece_bytes = piece_bytes
        self.world.settle()  # the definitions are durable
        self.sent = 0
        self.stored: list[str] = []
        self.fast: list[str] = []
        self.keep_running()

    def keep_running(self) -> None:
        if self.a.state(A_TO_B) in (ChannelState.INACTIVE, ChannelState.STOPPED):
            self.a.start(A_TO_B)

    def put(self, durable: bool) -> None:
        """Put five, and wait for what is durable to be stored; the channel works meanwhile."""
        client = Client(self.a)
        link = client.sender("IN@B")
        texts = [str(self.sent + number) for number in range(5)]
        self.sent += 5
        for number, text in enumerate(texts):
            message = Message(header=Header(durable=durable), body=Value(text))
            link.send(message.encode(), bytes([number]), False)
        while link.unsettled_count > 0:
            self.world.round()
        (self.stored if durable else self.fast).extend(texts)

    def happen(self, event: str) -> None:
        if event in ("durable", "fast"):
            self.put(event == "durable")
        elif event == "round":
            self.world.round()
        elif event == "time":
            self.world.pass_time(1.1)
        elif event == "cut":
            self.world.cut_all()
        elif event == "reset":
            self.reset()
        else:
            place: Place = self.a if event == "crash A" else self.b
            place.crash()
            self.keep_running()

    def reset(self) -> None:
        """The sender's numbers, where it is at rest and nothing is in doubt."""
        at_rest = self.a.state(A_TO_B) in (ChannelState.RETRYING, ChannelState.STOPPED)
        if at_rest and self.a.manager.channels.sync(A_TO_B).in_doubt is None:
            self.a.broker.channels.reset(A_TO_B, 1000 + self.sent, self.world.now_us)

    def end(self) -> list[str]:
        world: World = self.world
        for _ in range(5):
            self.keep_running()
            world.pass_time(2)
        assert self.a.state(A_TO_B) == ChannelState.RUNNING, self.a.reason(A_TO_B)
        return Client(self.b).get("IN")


@settings(max_examples=examples(100), deadline=None)
@given(
    events=st.lists(st.sampled_from(EVENTS), max_size=40),
    batch_size=st.sampled_from([1, 2, 3, 7, 100]),
    piece_bytes=st.sampled_from([70, 400, 1 << 20]),
    interval_ms=st.sampled_from([0, 500]),
)
def test_any_course_of_mishaps(
    events: list[str], batch_size: int, piece_bytes: int, interval_ms: int
) -> None:
    story = Story(batch_size, piece_bytes, interval_ms)
    for event in events:
        story.happen(event)
    came = story.end()
    fast = set(story.fast)
    assert [text for text in came if text not in fast] == story.stored
    there = [text for text in came if text in fast]
    assert there == [text for text in story.fast if text in set(there)]
    assert story.a.depth("B") == 0
    ours, theirs = story.a.manager.channels.sync(A_TO_B), story.b.manager.channels.sync(A_TO_B)
    assert (ours.last_luwid, ours.last_sequence) == (theirs.last_luwid, theirs.last_sequence)
