"""Connections, sessions and links without I/O: bytes and the time go in, events and bytes come out.

May import ``frames`` and ``encoding``.
"""
