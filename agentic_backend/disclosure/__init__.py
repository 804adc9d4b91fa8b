"""What is told of a failure, to whom, and without which secrets."""
