"""Numbers, sizes and times for people."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

NOTHING: Final = "–"
_SIZES: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_DURATIONS: Final = ((86_400e6, "d"), (3_600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms"))
_LARGE: Final = ((1e9, "G"), (1e6, "M"), (1e4, "k"))


def count(value: object) -> str:
    """A whole number with its thousands marked."""
    return f"{value:,}" if isinstance(value, int) else NOTHING if value is None else str(value)


def short_count(value: float) -> str:
    """A number in few characters: 950, 12.3 k, 4.1 M."""
    for limit, unit in _LARGE:
        if abs(value) >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.3g} {unit}"
    return f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Per second; None: not known yet."""
    if value is None:
        return NOTHING
    return (f"{value:.1f}" if 0 < value < 10 else short_count(value)) + "/s"


def size(value: object) -> str:
    """Bytes."""
    if not isinstance(value, int | float):
        return NOTHING
    for limit, unit in _SIZES:
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:,.0f} B"


def duration(us: float) -> str:
    """Microseconds: 40 µs, 4 ms, 2 s, 3.5 min, 5 h, 2 d."""
    for limit, unit in _DURATIONS:
        if us >= limit:
            value = us / limit
            is_round = value >= 10 or abs(value - round(value)) < 0.05
            return f"{value:.0f} {unit}" if is_round else f"{value:.1f} {unit}"
    return f"{us:.3g} µs"


def moment(us: object) -> str:
    """A time since 1970, in UTC, to the millisecond; 0 and None: none."""
    if not isinstance(us, int) or us <= 0:
        return NOTHING
    try:
        at = datetime.fromtimestamp(us / 1e6, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{us} µs since 1970"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}"


def words(name: str) -> str:
    """An attribute's, state's or event's name as text."""
    return name.replace("_", " ").replace("-", " ")


def path_of(*parts: object) -> str:
    """A path of these parts, quoted: names may have any character."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)
