"""Keep wanted and actual processes equal: arbiter, children, signals, crash evidence. Imports no user code."""
