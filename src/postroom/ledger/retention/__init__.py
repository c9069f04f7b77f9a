"""How much of its history a ledger keeps, and what its readers have been promised."""
