"""The state of graphs: checkpoints, what a session keeps, and the only types that are built from it."""
