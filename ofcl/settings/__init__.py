"""Settings of a run: their names, defaults and rules, as values and as files.

    schema    `Settings`: every setting with its default and a line of help
    rules     values that exclude each other
    layers    putting settings together: protocol, dataset, file, command line
    files     settings files (TOML), and the presets of the package
    presets/, datasets.toml    protocols, the demo, values that the paper sets for its datasets

The learning core never imports this room; `assembly` passes single values to the core.
"""
