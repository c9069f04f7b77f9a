"""The verbs of MQ Everyplace's message store: put, get, browse and lock, confirm, undo, wait, listen."""
