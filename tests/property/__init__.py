"""Pure parts held against generated input."""
