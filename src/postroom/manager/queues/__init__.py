"""A queue and how entries stand on it: backlog, bands, delays, expiry, units of order, groups, selectors'
cursors.
"""
