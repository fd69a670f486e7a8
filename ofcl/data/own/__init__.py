"""A user's own data, by path or by an id of the Hugging Face hub.

by_path        finds out the kind of data at a path, and calls the right reader
image_folder   a folder of images, a subfolder for each class
array_files    arrays in npz files
table_files    CSV, JSON lines and Parquet
large_tables   CSV files that are larger than the memory
hub            a dataset of the Hugging Face hub

Each reader returns a `Raw`. Only `data.loading` uses this folder.
"""
