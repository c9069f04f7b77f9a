"""Queue managers in one world, with channels between them: links cut and machines failing at every step."""
