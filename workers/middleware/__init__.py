"""The rings round an actor call (tracing, settle, deadline, limits, once) and the observing hooks."""
