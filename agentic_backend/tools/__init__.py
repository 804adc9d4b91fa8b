"""The standard tools, which any agent of the catalog can bind: time, todos, notes, assignment, old sessions."""
