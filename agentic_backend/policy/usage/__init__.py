"""What calls of models use and cost, and what may be spent."""
