"""Local transactions, XA branches, and two-phase commit with its decision log.

May import `sessions`, `connection` and `messages`.
"""
