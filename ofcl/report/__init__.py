"""Looking at runs: comparing them, a page, figures, tables, experiment trackers.

recorded_runs    runs as they lie on disk; `grouping`: which of them are one experiment; `naming`:
                 what experiments and datasets are called
comparison       A and F of experiments side by side
spread           means and deviations; `significance`: is a difference real? `joint_gap`: how far
                 below joint training?
series, figures  curves from events, and drawings of them; `drawn`: with caption and numbers
confusions       the confusion matrix of the final model; `heat_maps` draws it
memory_samples   clients' memories to look at; `sample_content`: pictures, texts, numbers
sections         the sections of a run on the page; `side_by_side`: those of several experiments
blocks           the blocks of the page, one a dataset; `settings_tables`: their settings
page             the page; `follow` serves it and keeps it up to date
result_tables    tables of results, in the `formats` CSV, LaTeX and Markdown
trackers         logging to TensorBoard, MLflow, Weights & Biases (`tracker_kinds`), all of them the
                 same numbers (`tracked_numbers`)

May import everything but `bench`, `reproduce` and `cli`, which may import it.
"""
