"""A connection as the broker sees it, and the broker that ties all of them to one queue manager and ledger.

May import ``management``, ``channels``, ``links``, ``kernel`` and ``configuration``.
"""
