"""One noun at a time, without services."""
