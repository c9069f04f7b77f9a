"""Parts of the console without a browser: samples, notices, bodies, lives, tables."""

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.message.sections import Data, Message, Value
from postroom.server.console import bodies, formats, notices, samples
from postroom.server.console.life import Family, lives_of
from postroom.server.console.life_picture import MAX_LANES, WIDTH, drawn
from postroom.server.console.pages.sign_in import _own_path
from postroom.server.console.samples import Samples, Series
from postroom.server.http.errors import Refusal


def line(serial: int, at: int, event: str, to: str, **more: object) -> dict[str, object]:
    time = f"2026-01-01T00:00:{at:02d}.000000Z"
    return {"serial": serial, "queue": "q", "time": time, "event": event, "to": to, "position": at, **more}


class Counting:
    """A reading whose figure goes up by 5 each time, and that can be refused."""

    def __init__(self) -> None:
        self.value = 0
        self.refusal: Refusal | None = None

    async def __call__(self) -> Mapping[str, float]:
        if self.refusal is not None:
            raise self.refusal
        self.value += 5
        return {"n": self.value}


def run_apart(act: Callable[[], Coroutine[None, None, None]]) -> None:
    """In a thread of its own: while the folder's browser is there, its library's event loop counts as running
    in this one."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, act()).result()


def test_a_series_has_no_more_than_its_samples() -> None:
    async def run() -> None:
        series = Series(Counting())
        for _ in range(samples.MAX_SAMPLES + 3):
            await series.take()
        found = series.since(0)
        assert len(found["times"]) == samples.MAX_SAMPLES  # type: ignore[arg-type]
        assert found["values"]["n"][0] == 20  # type: ignore[index]
        assert series.since(series.times_ms[-1]) == {"times": [], "values": {}}

    run_apart(run)


def test_rates_are_between_two_samples_and_none_after_a_reset() -> None:
    series = Series(Counting())
    assert series.rate("n") is None
    for time_ms, value in ((1000, 10), (3000, 30)):
        series.times_ms.append(time_ms)
        series.values.append({"n": value})
    assert series.rate("n") == 10.0
    series.times_ms.append(5000)
    series.values.append({"n": 2})
    assert series.rate("n") is None


def test_so_many_things_are_sampled_and_those_that_may_not_be_seen_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(samples, "INTERVAL_S", 0.001)

    async def run() -> None:
        known, reading = Samples(), Counting()
        for number in range(samples.MAX_SERIES + 1):
            await known.watch(f"queue {number}", reading)
        assert known.find("queue 0") is None and known.find("queue 1") is not None
        reading.refusal = Refusal(403, "refused", "no right")
        with pytest.raises(Refusal):
            await known.watch("another", reading)
        async with asyncio.timeout(10):
            while known.find("queue 1") is not None:
                await asyncio.sleep(0.001)
        assert known.find("another") is None

    run_apart(run)


def test_a_notice_is_for_one_session_and_said_once() -> None:
    kept = notices.Notices()
    key = kept.keep("done", "mine")
    assert (kept.take(key, "another"), kept.take(key, "mine"), kept.take(key, "mine")) == ("", "done", "")
    first = kept.keep("first", "mine")
    for _ in range(notices.MAX_NOTICES):
        kept.keep("more", "mine")
    assert kept.take(first, "mine") == ""


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.one_of(st.binary(max_size=300).map(lambda data: Data([data])), ANY_JSON.map(Value)))
def test_any_body_is_shown_and_downloaded(body: Data | Value) -> None:
    shown = bodies.shown_body(Message(body=body))
    assert shown.size_bytes == len(bodies.content_of(Message(body=body)))
    assert shown.kind in ("text", "JSON", "bytes", "AMQP value", "AMQP sequence")
    if isinstance(body, Data) and shown.kind == "bytes":
        rows = shown.hexadecimal.splitlines()
        assert b"".join(bytes.fromhex(row[10:58]) for row in rows) == body.joined()


@pytest.mark.parametrize("size", [bodies.MAX_SHOWN_BYTES, bodies.MAX_SHOWN_BYTES + 1])
def test_a_long_body_is_cut_between_characters(size: int) -> None:
    shown = bodies.shown_body(Message(body=Data([("x" + "é" * size).encode()[: size + 1]])))
    assert shown.is_cut and len(shown.text.encode()) <= bodies.MAX_SHOWN_BYTES and shown.kind == "text"


def test_lives_have_their_states_relatives_and_ends() -> None:
    lines = [
        line(1, 1, "put", "available", message_id="m"),
        line(1, 2, "acquire", "get_unconfirmed", holder_kind="consumer", holder=7, holder_name="a/b"),
        line(2, 5, "dead_letter", "available", parent=1),
        line(1, 5, "dead_letter", "deleted", outcome="dead_lettered"),
        line(3, 6, "move", "available", parent=2),
        line(2, 6, "move", "deleted", outcome="moved"),
    ]
    family = Family(2, lives_of(lines), 1, True)
    assert [(stay.state, stay.holder, stay.duration_us(0)) for stay in family.lives[0].stays] == [
        ("available", "", 1_000_000),
        ("get_unconfirmed", "consumer 7 a/b", 3_000_000),
    ]
    assert [life.serial for life in family.ancestors()] == [1]
    assert [life.serial for life in family.descendants()] == [3]
    assert Family(1, family.lives, 1, True).descendants() == family.lives[1:]


@given(st.lists(st.integers(0, 59), min_size=1, max_size=30), st.booleans())
def test_boxes_lie_side_by_side_within_the_picture(times: list[int], ends: bool) -> None:
    ordered = sorted(times)
    lines = [line(1, at, "put", "available") for at in ordered]
    if ends:
        lines.append(line(1, ordered[-1], "confirm", "deleted", outcome="consumed"))
    lives = lives_of(lines)
    picture = drawn(lives, lives[0].since_us + 60_000_000)
    boxes = picture.lanes[0].boxes
    assert len(boxes) == len(ordered)
    for before, after in itertools.pairwise(boxes):
        assert before.x <= after.x <= WIDTH
    assert all(box.x >= 0 and box.x + box.width <= WIDTH + 2.1 for box in boxes)
    assert [x for x, _ in picture.marks] == sorted(x for x, _ in picture.marks)


def test_no_more_lanes_are_drawn_than_there_is_room_for() -> None:
    lives = lives_of([line(serial, serial % 60, "put", "available") for serial in range(1, MAX_LANES + 9)])
    picture = drawn(lives, 10**18)
    assert len(picture.lanes) == MAX_LANES and picture.left_out


@given(st.text(max_size=30))
def test_signing_in_leads_to_own_paths_alone(target: str) -> None:
    found = _own_path(target)
    assert found.startswith("/") and not found.startswith("//") and "\\" not in found


def test_formats() -> None:
    assert [formats.size(value) for value in (0, 1023, 1536, 5 << 30)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "5 GiB",
    ]
    assert [formats.duration(us) for us in (5, 4000, 3.5e6 * 60)] == ["5 µs", "4 ms", "3.5 min"]
    assert [formats.rate(value) for value in (0, 0.5, 12_345.0)] == ["0/s", "0.5/s", "12.3 k/s"]
    assert formats.moment(0) == formats.moment(None) == formats.NOTHING
    assert formats.moment(1 << 62) == f"{1 << 62} µs since 1970"
    assert formats.path_of("queues", "a/b c?#%") == "/queues/a%2Fb%20c%3F%23%25"
    assert json.loads(json.dumps(formats.rate(None))) == formats.NOTHING
