"""Who may do what: users, roles and their grants, and the record of administrators' acts. May import
``kernel``."""
