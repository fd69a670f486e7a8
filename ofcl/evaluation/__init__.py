"""Tests of models: held-out samples, metrics, the result of a run.

held_out   samples that are tested and never learned
joined_held_out    those of several datasets, learned one after the other
metrics    accuracy, forgetting and others, from counts that add up
results    the result of a run, computed from its events
cross_matrix    whose model is how good on whose test data (cross-site validation)

May import `compute` and `events`; clients test themselves with it, reports read its results.
"""
