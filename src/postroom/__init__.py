"""Postroom: a message broker that accounts for every message."""

from typing import Final

__version__: Final = "0.2.0"
