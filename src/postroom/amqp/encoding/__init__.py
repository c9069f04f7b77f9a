"""AMQP's values and composite types as bytes (part 1): types, constructors, readers and writers.

May import ``postroom.amqp.errors``.
"""
