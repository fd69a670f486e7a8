"""What a run has come to: test samples, metrics, the result.

held_out   samples that are tested and never learned
metrics    accuracy, forgetting and others, from counts that add up
results    the result of a run, computed from its events
"""
