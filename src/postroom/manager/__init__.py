"""The queue manager: queues, those who put and take, and every rule between them.

Pure: no loop, socket, file, thread, clock or randomness. Time is an argument, effects are returned
(`kernel.effects`), events go to the ledger's block builder. It knows nothing of AMQP frames or files.

Its face is `manager.QueueManager`, with those of its parts in `services`. `turn` is what follows every
command, `restore` how it starts from what the ledger recovered; all else stands in rooms, by what it is for.
"""
