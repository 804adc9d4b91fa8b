"""What a run of a graph is limited to and known by while it runs."""
