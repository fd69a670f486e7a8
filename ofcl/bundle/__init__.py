"""Bundles: a learned model with all that one needs to use it, apart from its run.

    description      the facts in `model.json`: network, labels, form of samples, how it was learned
    bundle_files     a bundle as a folder or a zip file; reading checks it like a stranger's
    model_card       `README.md` of a bundle, for people
    network          the module that a description describes, with its weights
    given_samples    samples as people have them (arrays, images, paths, texts, frames) → inputs
    trained_model    the model that predicts: `TrainedModel`
    open_bundle      `load`: from a run directory, a folder or a zip file to a `TrainedModel`
    abstention       from which probability or uncertainty on a model had better not answer

A run makes its bundle in `assembly/make_bundle.py`. May import everything below the engines.
"""
