"""What an exchange asks a person, for clients that show no more of it than words."""
