"""Applications that come with the server, on the public surface of applications and nothing else."""
