"""The store, its records and `once`, against a real PostgreSQL."""
