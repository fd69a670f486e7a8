"""Settings of a run: their names, defaults and rules, as values and as files.

    schema    `Settings`: every setting with its default and a line of help
    rules     values that cannot be together
    layers    settings from layers: protocol, dataset, file, command line
    files     settings files (TOML), and the presets of the package
    presets/, datasets.toml    protocols, the demo, what the paper sets for each of its datasets

The learning core never imports this room; `assembly` hands it single values.
"""
