"""What every feature works on: an entry and its transitions, a destination, effects of a turn, counters,
memory, bounds, errors; and how features take part in a turn (`core`).
"""
