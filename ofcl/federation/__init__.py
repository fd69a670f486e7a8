"""A federation between real parties, each with its own machine, key and data.

organiser.py, keys.py  making a federation and changing it: who takes part, keys
folders.py             what is where, at the server and at a party
terms.py               what server and parties tell each other besides models
sources.py, member.py  a party: its data, its client, what leaves it and what is written of that
courier.py, host.py    the server: whom it waits for and how long; a run between parties
runs.py                one run at a time, and which was last
flower_*.py            the only modules that know Flower: its connections, its server, its runs
"""
