"""Drills of what happens to broker, database, cache and the wires between: one file each."""
