"""Timing: what a mini-batch costs on this machine, by its parts and by what it grows with."""
