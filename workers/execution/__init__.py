"""Run jobs: the nursery, the worker process with its threads and event loop, books bound to Dramatiq actors."""
