"""How the driver reaches the broker for management requests.

May import `data_source`.
"""
