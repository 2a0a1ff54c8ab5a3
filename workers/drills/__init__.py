"""Faults made on purpose, and the ledger that judges whether anything was lost or doubled."""
