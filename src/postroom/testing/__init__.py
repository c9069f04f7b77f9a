"""A broker for tests: in memory, in this process, with a clock that the test moves.

``with testing.Broker() as broker`` gives any AMQP client its ``broker.url``; with pytest the fixture
``postroom_broker`` does the same. See docs/howto/test-your-application.md.

pytest loads the plugin in every run: nothing of the broker is imported before it is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postroom.testing.broker import Broker, QueueView
    from postroom.testing.errors import (
        BrokerFailed,
        ConfigInvalid,
        NotAllowed,
        UnknownConnection,
        UnknownMessage,
        UnknownQueue,
    )
    from postroom.testing.history import Event
    from postroom.testing.messages import QueuedMessage

__all__ = [
    "Broker",
    "BrokerFailed",
    "ConfigInvalid",
    "Event",
    "NotAllowed",
    "QueueView",
    "QueuedMessage",
    "UnknownConnection",
    "UnknownMessage",
    "UnknownQueue",
]

_ROOMS = {"Broker": "broker", "Event": "history", "QueueView": "broker", "QueuedMessage": "messages"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_ROOMS.get(name, 'errors')}"), name)
