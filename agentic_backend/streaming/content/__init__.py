"""LangChain's content and the protocol's values, converted into each other. Pure."""
