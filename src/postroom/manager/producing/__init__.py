"""The way of a send: quota, blocking, flow control, the put itself, publication."""
