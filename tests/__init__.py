"""The promises, each tried on real services."""
