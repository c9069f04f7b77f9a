"""Who signs in with what, and what a connection may do: rights are asked here, refusals and acts recorded.

May import ``kernel`` and ``configuration``.
"""
