"""What those outside say to the queue manager about channels, names, Spark and transactions: faces over the
rooms.

May import ``turn`` and all rooms.
"""
