"""Real processes and real signals, as an operator would use them."""
