"""Authors' code: found, imported, called, and what it returns."""
