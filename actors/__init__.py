"""The work: a shop's jobs, shipped as the example and yours to replace. Nothing imports this package."""
