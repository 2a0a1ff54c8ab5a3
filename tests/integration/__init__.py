"""Each room against its real service."""
