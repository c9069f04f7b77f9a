"""Waiting without asyncio: the twin of aio/futures.py."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def result_of(future: Future[T]) -> T:
    """What another thread promised."""
    return future.result()


def to_its_end(work: Callable[[], T]) -> T:
    """Do ``work``."""
    return work()
