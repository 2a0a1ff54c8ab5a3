"""How work is cut: assignment, members, leases, claims, progress, batches."""
