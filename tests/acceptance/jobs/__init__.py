"""Jobs that do what the acceptance tests need: take effect, fail in each way, wait for a cue."""
