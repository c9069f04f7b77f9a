"""The broker: connections, queue manager and ledger tied together, then put on sockets.

The pure half knows no loop, socket or clock: ``connection`` (the broker, and one connection as it sees it),
``management``, ``channels``, ``links``, and ``kernel``, what all of them know of the broker, a connection and
a link. The asyncio half is ``listening`` and ``http``; `start` goes from a ``configuration`` to a running
process. May import what is below: manager, ledger, amqp, model.
"""
