"""What a model is given: the system prompt, and as much of the past as fits."""
