"""What goes into the record of acts: each act of an administrator, and refusals, of which a flood is counted
and not written one by one."""

from dataclasses import replace
from typing import Final

from postroom.manager.security.acts import Act
from postroom.manager.services.security import SecurityService

WINDOW_US: Final = 10_000_000
"""Refusals alike are told of once, and then, counted, so much later."""
MAX_KINDS: Final = 1000
"""Of refusals in one window; those of further kinds are counted together."""

_Kind = tuple[str, str, str, str, str, str]


class Acts:
    """What is recorded of one broker."""

    def __init__(self, security: SecurityService) -> None:
        self._security: Final = security
        self._counted: Final[dict[_Kind, Act]] = {}
        """Refusals of the window by what they are alike in; their count is of those not told of yet."""
        self._window_end_us = 0

    def done(self, act: Act, now_us: int) -> None:
        """An administrator has done something, in the turn that is under way."""
        self._security.record_act(act, now_us)

    def refused(self, act: Act, now_us: int) -> None:
        """Somebody was refused something."""
        if self._window_end_us == 0:
            self._window_end_us = now_us + WINDOW_US
        kind = (act.user, act.remote.rpartition(":")[0], act.operation, act.type, act.name, act.description)
        if kind not in self._counted and len(self._counted) >= MAX_KINDS:
            kind = ("", "", "", "", "", "")
            act = Act("", "", "", "", "", "", act.status, "more refusals, of various kinds")
        before = self._counted.get(kind)
        if before is not None:
            self._counted[kind] = replace(before, count=before.count + 1)
            return
        self._counted[kind] = replace(act, count=0)
        self._security.record_act(act, now_us)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._window_end_us

    def on_time(self, now_us: int) -> None:
        """Tell of what was only counted."""
        if self._window_end_us and now_us >= self._window_end_us:
            self.flush(now_us)

    def flush(self, now_us: int) -> None:
        """The window is over."""
        counted = [act for act in self._counted.values() if act.count]
        self._counted.clear()
        self._window_end_us = 0
        for act in counted:
            self._security.record_act(act, now_us)
