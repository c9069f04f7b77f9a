"""Frames and what is in them: performatives, delivery states, termini, SASL (parts 2 to 5).

May import ``encoding``.
"""
