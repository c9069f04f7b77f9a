"""Delivery schedules: at which moments messages may be born.

The syntax is that of WebLogic's ``weblogic.jms.extensions.Schedule``: seven fields, parted by blanks,

    millisecond second minute hour day-of-month month day-of-week

each ``*`` or a list of numbers and ranges (``0,15,30-35``). Months count from 1 (January), days of the week
from 1 (Sunday). A moment is on the schedule when all seven fields have it; both day fields must agree, where
cron takes either. Times are UTC, so that no hour comes twice or never.
"""

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from typing import Final, final

from mypy_extensions import i64

FIELDS: Final = (
    ("millisecond", 0, 999),
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 1, 7),
)
MAX_SCHEDULE_CHARS: Final = 4096
MAX_DAYS_AHEAD: Final = 366 * 40
"""A 29 February that must be a given day of the week comes once in 28 years, or 40 across 2100."""

_US_PER_MS: Final = 1000
_DAY_MS: Final = 86_400_000


class ScheduleInvalid(ValueError):
    """``text`` is no schedule: what is wrong at ``position`` (0 for the first character)."""

    def __init__(self, text: str, position: int, what: str) -> None:
        super().__init__(f"schedule {text[:80]!r}, character {position + 1}: {what}")
        self.position = position


@final
class Schedule:
    """The moments of one schedule."""

    def __init__(self, text: str, fields: list[list[int]]) -> None:
        self.text = text
        self._times = fields[:4]
        """Milliseconds, seconds, minutes, hours, each ascending."""
        self._days = frozenset(fields[4])
        self._months = frozenset(fields[5])
        self._weekdays = frozenset(fields[6])
        self._computed_us: i64 = 0
        self._next_us: i64 = 0

    def next_us(self, now_us: i64) -> i64:
        """The first moment on the schedule that is later than ``now_us`` (µs since 1970)."""
        if not self._computed_us <= now_us < self._next_us:
            self._next_us = self._after_ms(int(now_us // _US_PER_MS)) * _US_PER_MS
            self._computed_us = now_us
        return self._next_us

    def _after_ms(self, now_ms: int) -> int:
        """Raises ValueError when there is none within `MAX_DAYS_AHEAD`."""
        first_ms = now_ms + 1
        day_number, time_ms = divmod(first_ms, _DAY_MS)
        day = date(1970, 1, 1) + timedelta(days=day_number)
        for _ in range(MAX_DAYS_AHEAD):
            if self._has(day):
                found_ms = self._time_from(time_ms)
                if found_ms >= 0:
                    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
                    return int(midnight.timestamp()) * 1000 + found_ms
            day += timedelta(days=1)
            time_ms = 0
        raise ValueError("no day of the calendar is on this schedule")

    def _has(self, day: date) -> bool:
        weekday = day.isoweekday() % 7 + 1
        return day.month in self._months and day.day in self._days and weekday in self._weekdays

    def _time_from(self, time_ms: int) -> int:
        """The first time of day on the schedule not before ``time_ms``; −1 when there is none that day."""
        parts = [time_ms % 1000, time_ms // 1000 % 60, time_ms // 60_000 % 60, time_ms // 3_600_000]
        chosen: list[int] = [values[0] for values in self._times]
        for place in range(3, -1, -1):
            values = self._times[place]
            at = bisect_left(values, parts[place])
            if at < len(values) and values[at] == parts[place]:
                chosen[place] = parts[place]
                continue
            return self._carried(chosen, parts, place, at)
        return _in_ms(chosen)

    def _carried(self, chosen: list[int], parts: list[int], place: int, at: int) -> int:
        """The field ``place`` has no value equal to what is asked: the next larger, or one more above it."""
        while at == len(self._times[place]):
            chosen[place] = self._times[place][0]
            place += 1
            if place == 4:
                return -1
            at = bisect_left(self._times[place], parts[place] + 1)
        chosen[place] = self._times[place][at]
        return _in_ms(chosen)


def _in_ms(parts: list[int]) -> int:
    return ((parts[3] * 60 + parts[2]) * 60 + parts[1]) * 1000 + parts[0]


def parse_schedule(text: str) -> Schedule:
    """The schedule that ``text`` writes down; raises `ScheduleInvalid`."""
    if len(text) > MAX_SCHEDULE_CHARS:
        raise ScheduleInvalid(text, MAX_SCHEDULE_CHARS, f"longer than {MAX_SCHEDULE_CHARS} characters")
    fields: list[list[int]] = []
    for position, word in _words(text):
        if len(fields) == len(FIELDS):
            raise ScheduleInvalid(text, position, f"more than {len(FIELDS)} fields")
        fields.append(_field(text, position, word, len(fields)))
    if len(fields) < len(FIELDS):
        wanted = ", ".join(name for name, _, _ in FIELDS[len(fields) :])
        raise ScheduleInvalid(text, len(text), f"{len(fields)} fields where 7 are needed: missing {wanted}")
    schedule = Schedule(text, fields)
    try:
        schedule.next_us(0)
    except ValueError as error:
        raise ScheduleInvalid(text, 0, str(error)) from error
    return schedule


def _words(text: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    position = 0
    for word in text.split():
        position = text.index(word, position)
        found.append((position, word))
        position += len(word)
    return found


def _field(text: str, position: int, word: str, number: int) -> list[int]:
    name, low, high = FIELDS[number]
    if word == "*":
        return list(range(low, high + 1))
    values: set[int] = set()
    for item in word.split(","):
        first, dash, last = item.partition("-")
        start = _value(text, position, first, name, low, high)
        end = _value(text, position + len(first) + 1, last, name, low, high) if dash else start
        if end < start:
            raise ScheduleInvalid(text, position, f"{name} {item!r}: the range runs backwards")
        values.update(range(start, end + 1))
        position += len(item) + 1
    return sorted(values)


def _value(text: str, position: int, digits: str, name: str, low: int, high: int) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise ScheduleInvalid(text, position, f"{name} {digits!r} is no number")
    value = int(digits[:9])
    if not low <= value <= high:
        raise ScheduleInvalid(text, position, f"{name} {digits} is not from {low} to {high}")
    return value
