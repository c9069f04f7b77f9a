"""What a handler raises to say what becomes of its message."""

from __future__ import annotations

from postroom.client.durations import check_duration

__all__ = ["Reject", "Retry"]


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
