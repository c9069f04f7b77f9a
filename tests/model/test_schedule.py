"""Delivery schedules: what they mean, and what is wrong with those that mean nothing."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.model.schedule import FIELDS, Schedule, ScheduleInvalid, parse_schedule
from tests.sampling import examples

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def next_of(schedule: str, now: str) -> str:
    found = parse_schedule(schedule).next_us(us(now))
    return (EPOCH + timedelta(microseconds=int(found))).isoformat(timespec="milliseconds")[:-6]


@pytest.mark.parametrize(
    ("schedule", "now", "expected"),
    [
        ("0 0 0,30 * * * *", "2026-11-21T10:15:00", "2026-11-21T10:30:00.000"),
        ("0 0 0,30 * * * *", "2026-11-21T10:30:00", "2026-11-21T11:00:00.000"),  # later, not now
        ("* * * * * * *", "2026-11-21T10:30:00.0015", "2026-11-21T10:30:00.002"),
        ("0 0 0 9-17 * * 2-6", "2026-11-20T17:00:00", "2026-11-23T09:00:00.000"),  # Friday → Monday
        ("0 0 0 0 1 1 *", "2026-01-01T00:00:00", "2027-01-01T00:00:00.000"),
        ("500 59 59 23 31 12 *", "2026-11-21T00:00:00", "2026-12-31T23:59:59.500"),
        ("0 0 0 0 29 2 *", "2026-11-21T00:00:00", "2028-02-29T00:00:00.000"),
        ("0 0 0 12 13 * 6", "2026-11-21T00:00:00", "2027-08-13T12:00:00.000"),  # Friday the 13th: both fields
        ("0 0-10,20 * * * * *", "2026-11-21T00:00:10", "2026-11-21T00:00:20.000"),
        ("0 30 * * * * *", "2026-12-31T23:59:45", "2027-01-01T00:00:30.000"),
    ],
)
def test_the_next_moment(schedule: str, now: str, expected: str) -> None:
    assert next_of(schedule, now) == expected


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("", 0, "7 are needed: missing millisecond, second"),
        ("0 0 0", 5, "3 fields where 7 are needed: missing hour"),
        ("0 0 0 0 1 1 1 1", 14, "more than 7 fields"),
        ("0 61 * * * * *", 2, "second 61 is not from 0 to 59"),
        ("0 0 * * 0 * *", 8, "day of month 0 is not from 1 to 31"),
        ("0 0 * 5,x * * *", 8, "hour 'x' is no number"),
        ("0 0 * 5-3 * * *", 6, "the range runs backwards"),
        ("0 0 * 5- * * *", 8, "hour '' is no number"),
        ("0 0 * * * * 8", 12, "day of week 8 is not from 1 to 7"),
        ("0 0 * * 31 2,4 *", 0, "no day of the calendar is on this schedule"),
        ("0 0 * ٣ * * *", 6, "is no number"),
        ("0 " * 5000, 4096, "longer than 4096 characters"),
    ],
)
def test_errors_say_where(text: str, position: int, what: str) -> None:
    with pytest.raises(ScheduleInvalid, match="character") as caught:
        parse_schedule(text)
    assert caught.value.position == position
    assert what in str(caught.value)


@given(st.text(alphabet="0123456789*,- x", max_size=40))
def test_any_text_is_a_schedule_or_says_why_not(text: str) -> None:
    try:
        assert isinstance(parse_schedule(text), Schedule)
    except ScheduleInvalid as error:
        assert 0 <= error.position <= len(text)


def fields() -> st.SearchStrategy[list[set[int]]]:
    """A few values of each field: times first."""
    sets = [st.sets(st.integers(low, high), min_size=1, max_size=5) for _, low, high in FIELDS]
    sets[4] = st.sets(st.integers(1, 28), min_size=3)
    sets[6] = st.just(set(range(1, 8)))
    return st.tuples(*sets).map(list)


@settings(max_examples=examples(200))
@given(fields(), st.integers(0, 2_000_000_000_000))
def test_nothing_on_the_schedule_lies_between_now_and_next(fields: list[set[int]], now_ms: int) -> None:
    text = " ".join(",".join(map(str, sorted(values))) for values in fields)
    schedule = parse_schedule(text)
    found = EPOCH + timedelta(microseconds=int(schedule.next_us(now_ms * 1000)))
    now = EPOCH + timedelta(milliseconds=now_ms)
    assert found > now and _on(fields, found)
    day = found.replace(hour=0, minute=0, second=0, microsecond=0)
    times = sorted(
        timedelta(hours=hour, minutes=minute, seconds=second, milliseconds=ms)
        for hour in fields[3]
        for minute in fields[2]
        for second in fields[1]
        for ms in fields[0]
    )
    assert next(day + time for time in times if day + time > now) == found
    while day > now:
        day -= timedelta(days=1)
        if _day_on(fields, day):
            assert day + times[-1] <= now
            return


def _day_on(fields: list[set[int]], moment: datetime) -> bool:
    weekday = moment.isoweekday() % 7 + 1
    return moment.day in fields[4] and moment.month in fields[5] and weekday in fields[6]


def _on(fields: list[set[int]], moment: datetime) -> bool:
    time = (moment.microsecond // 1000, moment.second, moment.minute, moment.hour)
    return all(part in values for part, values in zip(time, fields, strict=False)) and _day_on(fields, moment)
