"""Message channels between queue managers: what the agents at both ends do, and what becomes of a message
that can't be delivered.

Pure, like the queue manager below: no loop, socket, file, thread, clock or randomness; time is an argument.
What a channel is stands in `model.channel`; the queue manager holds batches, sequence numbers and what is in
doubt.
"""
