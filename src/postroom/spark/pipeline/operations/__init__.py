"""What `postroom pipeline` does: run, status, rebuild, erase, metrics."""
