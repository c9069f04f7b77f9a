"""The broker: connections, queue manager and ledger tied together, then put on sockets.

The pure half knows no loop, socket or clock: ``connection`` (the broker, and one connection as it sees it),
``links``, ``channels``, ``management``. The asyncio half is ``listening`` and ``http``; `start` goes from a
``configuration`` to a running process. May import what is below: manager, ledger, amqp, model.
"""
