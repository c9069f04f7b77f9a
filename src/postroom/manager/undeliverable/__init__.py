"""What can't be delivered or put: dead letters, redirected and discarded messages, and the entries made of
them.
"""
