"""What hangs on a link of a client: messages in and out, outcomes, transactions, subscriptions, dynamic
nodes.

May import ``kernel`` and ``configuration``.
"""
