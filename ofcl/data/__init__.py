"""Data on the way to a client: raw samples → dataset → scenario → one stream for each client.

    loading          a dataset by name or path, by the steps below
    raw              samples as they are in their files
    selection        the samples that a run uses, and a test part if the data have none
    preparation      turns raw samples into tensors; `standardisation` of the columns of tables
    stored_rows      rows of tables that are larger than the memory, in a file
    token_samples    texts as token ids
    table_code       cells of a table as a network's input
    image_features   images as vectors of a pretrained network; `feature_scaling` of these
    dataset          the tensors
    tasks, splits    which classes make a task, which samples come to which client
    scenario         tasks and splits put together: a `Share` of the data for each client
    noise            wrong labels and broken inputs in such a share, for experiments
    stream           mini-batches of such a share
    options          the options of reading data

    named/           datasets by name, with their downloads and official formats
    own/             a user's own data by path
    files/           file formats: images, arrays, tables, texts, labels
    live/            streams without an end: feeds, their samples, the growing vocabulary

May import `compute`, `pretrained`, `events`, `state`, `seeds`, `errors`; nothing here knows a
model.
"""
