"""What an instrumentation of the client does: it is around sends, receives and listeners, where the option
``tracing`` has one (:mod:`postroom.client.tracing`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from postroom.client.messages.base_message import Message


class MessageTracing(Protocol):
    """``destination`` is an address, ``client_id`` the container id of the connection."""

    def sending(
        self, messages: Sequence[Message], destination: str, client_id: str
    ) -> AbstractContextManager[object]:
        """Around a send, of one message or many: puts the context into each of them."""

    def receiving(self, message: Message, destination: str, client_id: str) -> AbstractContextManager[object]:
        """Around the way of a message to whom has called ``receive``."""

    def processing(
        self, message: Message, destination: str = "", client_id: str = ""
    ) -> AbstractContextManager[object]:
        """Around the call of a listener; for an application also around its own work at a message."""
