"""AMQP 1.0 without I/O: types and codec, frames and SASL, and the engine of connections, sessions and links.

This room turns bytes into events and calls into bytes. It knows no socket, clock, thread or randomness, and
nothing of queues: server and client feed it bytes and the time, and both use the same engine. It may import
``postroom.model`` only.

The engine's face is :class:`Connection` (``receive_data``, ``data_to_send``, ``on_time``), the sessions and
links that it leads to, and the events of :mod:`postroom.amqp.engine.events`. Performatives, termini and
outcomes are in :mod:`postroom.amqp.frames`, error conditions in :mod:`postroom.amqp.errors`, types in
:mod:`postroom.amqp.encoding.types`.
"""

from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.delivery import Delivery
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session

__all__ = ["Connection", "Delivery", "Link", "ReceiverLink", "SenderLink", "Session"]
