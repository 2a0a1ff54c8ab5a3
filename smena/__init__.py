"""The library for services and job authors: words, publishing, outbox, store, guarantees, telemetry."""
