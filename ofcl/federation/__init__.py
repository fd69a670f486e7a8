"""A federation between real parties, each with its own machine, key and data.

folders.py, keys.py    what `ofcl federation init` makes: folders, certificates, keys
terms.py               what server and parties tell each other besides models
sources.py, member.py  a party: its data, its client, what leaves it and what is written of that
courier.py, host.py    the server: whom it waits for and how long; a run between parties
runs.py                one run at a time, and which was last
flower_*.py            the only modules that know Flower: its connections, its server, its runs
"""
