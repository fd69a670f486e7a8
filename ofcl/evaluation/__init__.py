"""Tests of models: held-out samples, metrics, the result of a run.

held_out   samples that are tested and never learned
metrics    accuracy, forgetting and others, from counts that add up
results    the result of a run, computed from its events

May import `compute` and `events`; clients test themselves with it, reports read its results.
"""
