"""`agentic-backend new-agent`: a module, a catalog entry and a test, written from one of the templates."""
