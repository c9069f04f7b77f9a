"""The web console, in a browser."""
