"""Answers from people's documents, with citations that are checked."""
