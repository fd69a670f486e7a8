"""Flower's simulation engine, and states as Flower's records.

Only this folder and the `flower_…` modules of `federation` import Flower.
"""
