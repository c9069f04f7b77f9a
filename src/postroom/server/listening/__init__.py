"""Sockets, TLS, WebSocket and sign-in, on an event loop: bytes to connections and back, turn by turn.

May import all other rooms but ``http``.
"""
