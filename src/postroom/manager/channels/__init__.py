"""Both ends of message channels, as the queue manager keeps them: batches, sequence numbers, LUWIDs."""
