"""Requests to the broker's management node, ``$management``.

Generated from aio/management_client.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postroom.client.aio import management_client as aio
from postroom.client.messages.management_answers import ManagementReply
from postroom.client.sync.portal import Closable

__all__ = ["ManagementClient"]


class ManagementClient(Closable[aio.ManagementClient]):
    """Creates, reads, changes, deletes and lists what the broker has. Made by
    :meth:`Connection.create_management`.

    Every method raises what the broker answers: ManagementException, or the exception that JMS has for its
    condition, such as InvalidDestinationException where there is no thing of that name.
    """

    def request(
        self,
        operation: str,
        *,
        kind: str | None = None,
        name: str | None = None,
        body: object = None,
        properties: Mapping[str, object] | None = None,
        patience_s: float = 0.0,
    ) -> ManagementReply:
        """Send any request and wait for its answer; ``kind`` is the property ``type``, ``properties`` are
        further ones. ``patience_s``: how much longer than others it may take.
        """
        return self._portal.call(
            self._inner.request(
                operation, kind=kind, name=name, body=body, properties=properties, patience_s=patience_s
            )
        )

    def create(
        self, kind: str, name: str, attributes: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Create a thing of type ``kind``; returns its attributes."""
        return self._portal.call(self._inner.create(kind, name, attributes))

    def read(self, kind: str, name: str) -> dict[str, object]:
        """The attributes of a thing."""
        return self._portal.call(self._inner.read(kind, name))

    def update(self, kind: str, name: str, attributes: Mapping[str, object]) -> dict[str, object]:
        """Change attributes of a thing; returns all of them."""
        return self._portal.call(self._inner.update(kind, name, attributes))

    def delete(self, kind: str, name: str, options: Mapping[str, object] | None = None) -> dict[str, object]:
        """Delete a thing; ``options`` go into the request's properties. Returns what the broker says of
        it.
        """
        return self._portal.call(self._inner.delete(kind, name, options))

    def query(self, kind: str, attribute_names: Sequence[str] = ()) -> list[dict[str, object]]:
        """All things of type ``kind``, with the attributes named (none named: all)."""
        return self._portal.call(self._inner.query(kind, attribute_names))

    def close(self) -> None:
        """Close the links to the management node, and the session that was begun for them: a connection has
        only so many.
        """
        super().close()
