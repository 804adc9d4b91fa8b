"""The documents for machines, made of the models and the operations: OpenAPI, AsyncAPI, JSON Schemas."""
