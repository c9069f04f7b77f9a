"""What administrators do: purge, delete, look, move, replay, import, pause; dead-letter queue handlers."""
