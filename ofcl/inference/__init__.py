"""Putting a learned model to use: `ofcl predict`, `evaluate`, `export`, `serve`.

The model itself is in `bundle/`; this room reads what is to be predicted and writes the answers.

    input_rows       what is to be predicted: folders of images, tables, texts, lines of JSON
    prepared_network the exported graph: a network with the preparation of samples inside
    onnx_export      a model as an ONNX file
    torch_export     a model as a program of torch.export
    hub_export       a model on the Hugging Face hub
    …

May import everything but the command line.
"""
