"""File formats: what lies on a disk, as arrays and words.

    images    folders and files of images        tables    CSV, JSON lines, Parquet: rows of cells
    columns   which column is what, as numbers   text      embedding texts, with a cache
    labels    names of classes

Used by `data.named`, `data.own` and `data.live`, which say what the files mean.
"""
