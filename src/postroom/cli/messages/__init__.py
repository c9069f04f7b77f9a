"""Commands about messages: put, get, look, move, the message store, dead letters, transactions."""
