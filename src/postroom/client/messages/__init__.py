"""Messages of every kind, what they are made of, and what an application says of one that it has received.

May import the client's exceptions, destinations and durations, and `postroom.amqp`: no connection, no
session.
"""
