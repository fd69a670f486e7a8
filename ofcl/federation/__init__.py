"""A federation between real parties, each with its own machine, key and data.

    terms          what server and parties tell each other besides models
    setup/         making a federation and changing it: who takes part, keys, folders
    server_side/   the server: whom it waits for and how long; a run between parties
    party_side/    a party: its data, its client, what leaves it and what is written of that

A run between parties is a stage like any other (`assembly/stages.py`). Only the modules called
`flower_…` know Flower; the rest sees a `Transport`.
"""
