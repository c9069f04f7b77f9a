"""What can't be delivered, or not now: entries that come back, wait, expire or become dead letters, and the
entries made of them.
"""
