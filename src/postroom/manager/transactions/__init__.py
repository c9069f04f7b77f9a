"""Local transactions and XA branches: what they hold, and the one record that decides them."""
