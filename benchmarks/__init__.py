"""Smena measured beside its peers in one run: drain, publish, latency, outbox, once, CPU steps."""
