"""The shop's own migrations: schema `shop`, own version table; `smena db upgrade` runs them after Smena's."""
