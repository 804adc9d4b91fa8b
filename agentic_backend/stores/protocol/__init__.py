"""The parts of the Store protocol that `base` joins, each with its records."""
