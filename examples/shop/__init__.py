"""The demo: a publisher, a mail provider, a live table and the verdict on a shop's day of sales."""
