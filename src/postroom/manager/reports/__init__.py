"""Reports that producers ask for: of arrival, delivery, expiry, exceptions."""
