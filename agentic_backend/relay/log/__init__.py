"""The log of an exchange's events, and how it is found."""
