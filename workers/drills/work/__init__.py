"""Drills of how work is cut and timed: leaders, schedules, partitions, batches; one file each."""
