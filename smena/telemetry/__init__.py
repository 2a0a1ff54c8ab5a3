"""What is seen from outside: the event catalogue, structured logs, metrics and traces that subscribe to it."""
