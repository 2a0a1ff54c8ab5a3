"""What every child shares: the pipe to its supervisor, parent watch, drain request, flight recorder file."""
