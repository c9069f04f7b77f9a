"""What administrators do: purge, delete, search, move, replay, import, pause; topics and subscriptions made,
replaced and ended; dead-letter queue handlers.
"""
