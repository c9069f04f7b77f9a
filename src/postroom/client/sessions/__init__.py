"""What sessions, producers and consumers of both faces have in common: state, deliveries, listeners,
completions.

May import `connection` and `messages`.
"""
