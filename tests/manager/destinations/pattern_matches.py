"""What a topic's pattern matches, by its definition."""


def matches(pattern: list[str], name: list[str]) -> bool:
    """By the definition: * is one level, # the rest, none included."""
    if pattern[:1] == ["#"]:
        return True
    if not pattern or not name:
        return pattern == name
    return pattern[0] in ("*", name[0]) and matches(pattern[1:], name[1:])
