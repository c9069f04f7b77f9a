"""Message channel agents, to Postrooms and foreign brokers: their links, connections and supervision.

May import ``links``, ``kernel`` and ``configuration``.
"""
