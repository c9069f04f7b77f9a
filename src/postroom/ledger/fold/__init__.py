"""The state that records add up to, carried from file to file, and written whole as a checkpoint."""
