"""Data on the way to a client: raw samples → dataset → scenario → one stream for each client.

    loading      a dataset by name or path; `preparation` makes tensors of raw samples
    dataset, raw, stream, scenario, options    the types that travel between the steps
    named/       datasets by name, with their downloads and official formats
    own/         a user's own data by path
    files/       file formats: images, tables, texts, labels
    live/        streams without an end: feeds, their samples, the growing vocabulary

May import `compute`, `events`, `state`, `seeds`, `errors`; nothing here knows a model.
"""
