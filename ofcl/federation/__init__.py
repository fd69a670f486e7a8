"""A federation between real parties, each with its own machine, key and data.

    terms            the labels, samples and settings that server and parties agree on
    transport        the protocol that carries messages: what a second network has to implement
    setup/           making a federation and changing it: who takes part, keys, folders
    server_side/     the server: whom it waits for and how long; a run between parties
    party_side/      a party: its data, its client, what leaves it and the record of that
    flower_version   the pinned version of Flower and all that is assumed of it
    flower_check     compares the installed Flower with it

A run between parties is a stage like any other (`assembly/stages.py`). Only the modules called
`flower_…` import Flower; the rest sees a `Transport`.
"""
