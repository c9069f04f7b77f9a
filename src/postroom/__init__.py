"""Postroom: a message broker that accounts for every message."""
