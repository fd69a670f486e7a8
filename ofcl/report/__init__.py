"""The report: runs as one page that opens from disk, as figures and as tables."""
