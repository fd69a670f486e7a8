"""From settings to a prepared run: the only room that sees all settings at once.

    resolve        settings in which nothing is left to be found out
    make_client, make_server    the parts of a run from its settings
    participants   who takes part: clients of a dataset, or of streams
    stages         where they learn: in this process, or in those of a simulation
    checks         what cannot work is refused, in one place

Used by `experiment`, `federation`, `bench` and the rooms above them.
"""
