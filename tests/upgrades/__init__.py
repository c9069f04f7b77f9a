"""What each version has written, kept as it was, so that every later one is tried on it."""
