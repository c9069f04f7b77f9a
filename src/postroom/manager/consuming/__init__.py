"""Consumers and browsers: who gets what next, selectors, settlement."""
