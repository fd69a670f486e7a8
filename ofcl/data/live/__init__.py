"""Streams without an end: samples as they arrive, with classes that were not known before.

feeds            feeds by name, and held-out samples in the same formats
iterator_feed    samples of a Python iterable
json_lines       samples of lines of JSON, as on standard input
watched_folder   samples of files that appear in a folder
sample_reader    reads samples from files and lines, also from files that still grow
form             the form of samples, and how they become a model's input
live_agreement   one scale, and one code of the columns, for all clients of a run
vocabulary       the growing list of labels, each with its place
pending          samples that have arrived and wait to be learned
live_stream      mini-batches of the samples that a feed brings
sample           the types that all of these share: `Sample`, `Feed`, `StreamError`
"""
