"""Streams without an end: samples as they arrive, with classes nobody announced.

feeds         where samples come from: iterators, watched folders, standard input
rows          samples of the rows of files that are still being written
form          what samples look like, and how a model takes them
vocabulary    labels and their places, growing
live_stream   mini-batches of what a feed brings
sample        the types they share: `Sample`, `Feed`, `StreamError`
"""
