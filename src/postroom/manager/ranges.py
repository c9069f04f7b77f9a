"""Serials as ranges, for records that tell of many entries at once."""


def runs(serials: list[int]) -> list[tuple[int, int]]:
    """Serials as exact ranges (first, last), ascending: every integer in a range is one of them."""
    found: list[tuple[int, int]] = []
    first = last = 0
    for serial in sorted(serials):
        if first and serial == last + 1:
            last = serial
            continue
        if first:
            found.append((first, last))
        first = last = serial
    if first:
        found.append((first, last))
    return found
