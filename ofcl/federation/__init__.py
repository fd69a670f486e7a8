"""A federation between real parties, each with its own machine, key and data.

    terms              the labels, samples and settings that server and parties agree on
    scaling            the scaling that all parties share, made of the statistics of each
    signing            signatures of the server's messages
    image_vectors      images that parties embed by one network, and the scaling of their vectors
    transport          the two protocols that carry messages, one for the server, one for a party
    transport_choice   chooses the classes for both; the only ones are Flower's
    status_file        a small file in which a process notes how it is, for `watch`
    setup/             making a federation and changing it: who takes part, keys, folders
    server_side/       the server: whom it waits for and how long; a run between parties
    party_side/        a party: its data, its client, what leaves it and the record of that
    flower_app/        a run as a standard Flower app, on a SuperLink that runs already
    nvflare_app/       a run as a job of NVFlare, on a server and sites that run already
    flower_version     the pinned version of Flower and all that is assumed of it
    flower_check       compares the installed Flower with it

A run between parties is a stage like any other (`assembly/stages.py`). Only the modules called
`flower_…` import Flower, only those called `nvflare_…` import NVFlare. A run and a party see a
`Transport` and a `Connection`; keys, enrolment and the running server are made for Flower
(`transport.py`).
"""
