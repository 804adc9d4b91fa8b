"""The Store on MongoDB."""

from agentic_backend.stores.mongo.store import MongoStore

__all__ = ["MongoStore"]
