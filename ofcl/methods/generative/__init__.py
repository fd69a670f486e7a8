"""Methods that make images of past classes instead of remembering samples.

`mfcl_…` (Babakniya et al. 2023) and `fedcil_…` (Qi et al. 2023), each with a file for its losses,
its learner at a client, and its part at the server.
"""
