"""How a document is cut into chunks, by the kinds of its blocks. Pure."""
