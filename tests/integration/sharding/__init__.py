"""Batches and their claims, on PostgreSQL."""
