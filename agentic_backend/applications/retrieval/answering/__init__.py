"""From what was found to an answer: the prompt, what the answer cites, and what of it is kept."""
