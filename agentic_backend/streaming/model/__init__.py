"""The calls of models and tools beneath a graph: their tokens, their times, what is mended in them."""
