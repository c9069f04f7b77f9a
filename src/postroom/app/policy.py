"""How often a message whose handler fails is tried again, and when; what handlers raise to say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postroom.client.durations import check_duration

__all__ = ["Reject", "Retry", "RetryPolicy"]

DEFAULT_RETRIES: Final = 5
DEFAULT_RETRY_AFTER_S: Final = 1.0
DEFAULT_BACKOFF: Final = 2.0
DEFAULT_MAX_RETRY_AFTER_S: Final = 3_600.0


@dataclass(frozen=True)
class RetryPolicy:
    """``retries`` repetitions; the first after ``retry_after_s``, each next one after ``backoff`` times as
    long, never longer than ``max_retry_after_s``.
    """

    retries: int = DEFAULT_RETRIES
    retry_after_s: float = DEFAULT_RETRY_AFTER_S
    backoff: float = DEFAULT_BACKOFF
    max_retry_after_s: float = DEFAULT_MAX_RETRY_AFTER_S

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries is {self.retries}; it is 0 (none) or more")
        if not self.backoff >= 1:
            raise ValueError(f"backoff is {self.backoff}; it is 1 (always as long) or more")
        check_duration("retry_after_s", self.retry_after_s)
        check_duration("max_retry_after_s", self.max_retry_after_s)

    def gives_up(self, failures: int) -> bool:
        """Whether what had failed so many times before, and now again, is not tried any more."""
        return failures >= self.retries

    def delay_s(self, failures: int) -> float:
        """How long what had failed so many times before, and now again, waits."""
        try:
            return min(self.retry_after_s * self.backoff**failures, self.max_retry_after_s)
        except OverflowError:
            return self.max_retry_after_s


class Retry(Exception):
    """The message comes again, after ``after_s`` seconds (None: as the subscriber's ``retry_after_s`` says).

    It counts for the redelivery limit of the queue, not for the subscriber's ``retries``: for what will be
    good later, whoever has to be waited for. ``reason`` is for logs, and for the dead letter that it may
    become.
    """

    def __init__(self, reason: str = "", *, after_s: float | None = None) -> None:
        check_duration("after_s", after_s)
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s


class Reject(Exception):
    """The message will never be good: it becomes a dead letter at once, with ``reason``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
