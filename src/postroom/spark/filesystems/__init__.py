"""Files by path or URI, on this machine or in an object store: made whole, once, and synced.

Imports no other room of Spark's.
"""
