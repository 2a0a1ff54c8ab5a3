"""PostgreSQL and Redis: engines, sessions, tables, terms and migrations; the only room that opens them."""
