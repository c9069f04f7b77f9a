"""What every feature works on: an entry and its transitions, effects of a turn, counters, memory, bounds,
errors.

May import ``headers``, and for the queue manager's state (`core`) what that is made of.
"""
