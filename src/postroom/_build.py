"""How this installation was built."""

from postroom.model import codes


def compiled() -> bool:
    """Whether the hot modules run as compiled extensions; the same source also runs interpreted."""
    return not codes.__file__.endswith(".py")
