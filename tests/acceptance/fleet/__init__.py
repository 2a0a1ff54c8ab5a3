"""A small fleet without a broker: a role that pretends to work, the program that runs it, and a test's grip on it."""
