"""The real broker process, killed and traced: promises survive, and none is made too early.

``python -m tests.crash --kills N`` kills it as often as you like.
"""
