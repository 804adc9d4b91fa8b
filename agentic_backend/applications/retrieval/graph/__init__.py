"""The graph of entities: which chunks mention the same, and so lead from one document to another."""
