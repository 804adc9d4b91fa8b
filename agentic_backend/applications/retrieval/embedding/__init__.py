"""The embedding model that needs no network: multilingual-e5-small, computed in a worker process."""
