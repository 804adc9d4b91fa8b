"""The REST calls for admins only, and the gate before them."""
