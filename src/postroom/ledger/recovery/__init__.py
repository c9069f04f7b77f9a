"""From what is on the disk to the state that a queue manager starts with."""
