"""A user's own data, by path or by an id of the Hugging Face hub.

by_path        finds out what a path is, and lets one of the others read it
image_folder   a folder of images, a subfolder for each class
array_files    arrays in npz files
table_files    CSV, JSON lines and Parquet
hub            a dataset of the Hugging Face hub

Each reader gives a `Raw`. `data.loading` is the only user.
"""
