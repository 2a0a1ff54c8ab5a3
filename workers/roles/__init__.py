"""The loops beside the workers: relay (outbox to broker), archivist (dead letters to rows) and their kin."""
