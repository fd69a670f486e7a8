"""Putting a learned model to use: `ofcl predict`, `evaluate`, `export`, `serve`.

The model itself is in `bundle/`; this room reads what is to be predicted and writes the answers.

    input_rows       what is to be predicted: folders of images, tables, texts, lines of JSON
    …

May import everything but the command line.
"""
