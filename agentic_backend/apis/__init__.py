"""HTTP APIs: the operations of an OpenAPI document as tools of an agent (`api_runtime`)."""
