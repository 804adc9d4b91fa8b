"""A rehearsed case as data: its snapshot and the patches of it, the world graph, and what a counterparty may know."""
