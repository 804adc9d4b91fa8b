"""What older clients are served with: their codec on the socket, and their REST calls."""
