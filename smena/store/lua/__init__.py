"""Scripts that Redis runs as one step; `Cache.run` knows them by the name of the file."""
