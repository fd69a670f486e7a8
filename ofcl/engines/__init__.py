"""Where the clients run."""
