"""The SQL of what is kept (settlements, dead letters, jobs, audit); rows in, rows out, no policy."""
