"""What every REST call is made of: its declaration, its input, its errors, its answer."""
