"""Commands that run a broker, and that look at it as a whole: channels, connections, users, tokens."""
