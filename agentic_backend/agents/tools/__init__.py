"""What happens around each call of a tool."""
