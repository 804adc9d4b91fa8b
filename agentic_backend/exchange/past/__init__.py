"""What a run is given of the session's past, and what it leaves for the next."""
