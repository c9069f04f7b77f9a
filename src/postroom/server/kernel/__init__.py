"""What every room of the server knows: the broker, a connection and a link, as far as they are the same to
all; what one feature needs is its own state, kept under its class.

May import ``configuration`` and the plain modules of ``postroom.server``.
"""
