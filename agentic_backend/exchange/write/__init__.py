"""What an exchange stores and shows as it goes."""
