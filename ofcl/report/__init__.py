"""Looking at runs: comparing them, a page, figures, tables, experiment trackers.

recorded_runs    runs as they lie on disk
comparison       A and F of experiments side by side; `significance`: is a difference real?
series, figures  curves from events, and the pictures of them
sections, page   what the page shows, and the page; `follow` keeps it up to date
memory_samples   what memories hold, to look at
result_tables    tables of results, in the `formats` CSV, LaTeX and Markdown
trackers         TensorBoard, MLflow, Weights & Biases
"""
