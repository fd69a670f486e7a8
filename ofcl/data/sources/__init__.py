"""The named datasets: one file a format, each reading what its authors publish."""
