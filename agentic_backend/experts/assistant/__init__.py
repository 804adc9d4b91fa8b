"""The assistant: the default shipped agent, with a few tools and a search of the product's documents."""
