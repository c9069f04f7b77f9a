"""``python -m demo``: real clients, a crash, and what became of every message. See ``story`` for what
happens.
"""
