"""The smallest agent: one model in one node."""
