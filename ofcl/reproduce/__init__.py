"""The paper's tables: what it reports, the runs that it takes, and how ours compare."""
