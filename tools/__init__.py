"""What building and testing needs; nothing here is part of the product."""
