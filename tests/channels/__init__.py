"""Queue managers as real processes, with a proxy between them that cuts, and SIGKILL."""
