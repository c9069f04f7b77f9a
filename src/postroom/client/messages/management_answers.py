"""Answers of the management node, for both faces of the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from postroom.amqp.encoding.composite import Error
from postroom.client.exceptions import JMSException, ManagementException, from_error
from postroom.client.messages.message import Message

FIRST_ERROR_CODE: Final = 300


@dataclass(frozen=True, kw_only=True)
class ManagementReply:
    """What the broker answered: a code as of HTTP, its description, and the body."""

    status_code: int
    description: str
    condition: str | None = None
    """The AMQP error condition, where the request failed and the broker named one."""
    body: object = None
    properties: dict[str, object] = field(default_factory=dict)

    def attributes(self) -> dict[str, object]:
        """The body as attributes by name; empty where it is no map."""
        if not isinstance(self.body, dict):
            return {}
        return {str(name): value for name, value in self.body.items()}


def reply_from_message(message: Message) -> ManagementReply:
    """Read an answer; ManagementException when it has no status code."""
    code = message.properties.get("statusCode")
    if not isinstance(code, int):
        raise ManagementException("the answer of the management node has no statusCode", None, 0)
    condition = message.properties.get("errorCondition")
    return ManagementReply(
        status_code=int(code),
        description=str(message.properties.get("statusDescription", "")),
        condition=str(condition) if condition is not None else None,
        body=message.body,
        properties=dict(message.properties),
    )


def raise_unless_ok(reply: ManagementReply, what: str) -> None:
    """Raise the exception that fits a failed request; ``what`` names the request."""
    if reply.status_code < FIRST_ERROR_CODE:
        return
    if reply.condition is not None:
        # What the body of a refusal says, as the info of an AMQP error would.
        info: dict[object, object] = dict(reply.body) if isinstance(reply.body, dict) else {}
        failure = from_error(Error(reply.condition, reply.description, info), what)
        if type(failure) is not JMSException:
            raise failure
    raise ManagementException(
        f"{what}: {reply.description}", reply.condition, reply.status_code, reply.attributes()
    )


def rows_of_query(reply: ManagementReply) -> list[dict[str, object]]:
    """The rows of a QUERY as attributes by name: the body is a map of ``attributeNames`` and ``results``."""
    body = reply.attributes()
    names, rows = body.get("attributeNames"), body.get("results")
    if not isinstance(names, list) or not isinstance(rows, list):
        raise ManagementException(
            "the answer to a QUERY has no attributeNames and results", None, reply.status_code
        )
    return [{str(name): value for name, value in zip(names, row, strict=True)} for row in rows]
