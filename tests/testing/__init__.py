"""The broker for tests, and its pytest plugin."""
