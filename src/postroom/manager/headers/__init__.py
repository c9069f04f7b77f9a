"""Headers that the queue manager puts before a message, as IBM MQ has them: of dead letters, of transmission
queues.
"""
