"""Texts that clients send and receive."""

from __future__ import annotations

from typing import Any


def text(value: str) -> dict[str, Any]:
    """A message whose body is a string."""
    return {"durable": True, "body": {"value": {"string": value}}}


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["body"]["value"]["string"] for message in messages]
