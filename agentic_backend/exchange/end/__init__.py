"""The one end of an exchange, by its owner or by nobody's."""
