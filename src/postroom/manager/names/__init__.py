"""Where the name of a queue leads: to a queue here, to another queue manager, or nowhere."""
