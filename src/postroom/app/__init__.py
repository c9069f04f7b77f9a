"""Programs that handle messages: handlers with types, retries and dead letters by policy, an orderly end.

.. code-block:: python

    app = App("amqp://127.0.0.1:5672")

    @app.subscriber("orders", concurrency=10, publish_to="invoices")
    async def handle(order: Order) -> Invoice: ...

    app.run()

This room lies over :mod:`postroom.client`; it knows nothing of the broker and the ledger. It is for asyncio;
handlers may be plain functions, too, which run in threads.
"""

from postroom.app.application import App
from postroom.app.policy import Reject, Retry, RetryPolicy
from postroom.client import Message, Queue, Topic

__all__ = ["App", "Message", "Queue", "Reject", "Retry", "RetryPolicy", "Topic"]
