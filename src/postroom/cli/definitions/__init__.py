"""Definitions as a file: what a running broker has, what a file wants it to have, the plan between the two,
and how that is carried out; RabbitMQ's file of definitions, as far as it makes sense here.

May import ``postroom.cli.common``, the client, and the classes of definitions that the queue manager has.
"""
