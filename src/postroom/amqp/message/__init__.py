"""A message's sections (part 3), read and written as far as somebody asks.

May import ``encoding``.
"""
