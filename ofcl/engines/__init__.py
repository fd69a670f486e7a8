"""Where clients run; every engine runs the same client and the same loop (`algorithm.py`).

local       all clients in this process: the oracle for the others
remote      clients elsewhere, by requests and replies (`messages`)
responder   answers requests for one client, wherever it runs, and saves its state first
gate        checks every answer before the server does anything with it
flower/     requests and replies on Flower's simulation engine
"""
