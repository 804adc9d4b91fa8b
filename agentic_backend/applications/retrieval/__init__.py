"""Answers from people's documents, with citations that open where they stand."""
