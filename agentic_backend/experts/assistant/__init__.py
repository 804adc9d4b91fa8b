"""The assistant: the agent that ships with the product, with a few tools and the product's documents."""
