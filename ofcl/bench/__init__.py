"""Measuring how long a mini-batch takes on this machine (`ofcl bench`).

workload    the work that is timed: clients in the middle of a long stream
breakdown   how long each part of it takes
peer        the paper's code on the same work
summary     all measurements, as a table, as JSON and as a figure

May import everything but `report`, `reproduce` and `cli`; `reproduce` and `cli` may import it.
"""
