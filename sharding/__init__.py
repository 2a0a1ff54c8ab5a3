"""How work is cut: assignment, members, leases, claims, sources, pages, progress, batches, upkeep."""
