"""Putting a learned model to use: `ofcl predict`, `evaluate`, `export`, `serve`; watching.

The model itself is in `bundle/`; this room reads what is to be predicted and writes the answers.

    input_rows       samples to be predicted: images, tables, texts, arrays, a lot at a time
    table_lots       rows of tables that may be larger than the memory
    answering        the answers to lots: label, probability, uncertainty, or no label
    answer_files     files of answers: CSV, JSON lines, Parquet
    json_answers     lines of JSON, answered line by line
    labelled_data    labelled samples to evaluate a model on
    own_test         the samples that a run's clients were tested on
    evaluating       evaluation of a model on either
    measures         accuracy, calibration, risk against coverage
    evaluation_page  these as one page with pictures
    prepared_network the exported graph: a network with the preparation of samples inside
    onnx_export      a model as an ONNX file
    torch_export     a model as a program of torch.export
    hub_export       a model on the Hugging Face hub
    service/         a model over HTTP
    watch/           a page to watch a federation, on the layers of the service

May import everything but the command line.
"""
