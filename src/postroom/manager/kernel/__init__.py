"""What every feature works on: an entry and its transitions, effects of a turn, counters, memory, bounds,
errors.

Imports no other room, except what the queue manager's state (`core`) is made of.
"""
