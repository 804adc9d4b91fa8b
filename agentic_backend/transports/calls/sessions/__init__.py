"""The REST calls about sessions and what is said in them."""
