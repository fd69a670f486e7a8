"""File formats: reads the content of files as arrays, words and vectors.

images        image files; `pixel_depth` brings 12 and 16 bits to 8
arrays        npz files
tables        CSV, JSON lines and Parquet as columns, by `csv_rows`, `json_rows`, `text_lines`
columns       which column is the label, the text, a number; `cells` reads the values
csv_pieces    rows of a large CSV file, some at a time, by pyarrow if it is there; `cell_arrays`
dates         dates, moments and times of the day in cells
column_facts  facts about a column, collected in pieces; `table_facts` of all, `column_guesses`
labels        labels as words, and the classes that they name
embeddings    vectors of texts and images, cached on disk; `embedders` make those of texts
image_embedders    pretrained networks for images, by name and checksum;
              `embedder_networks` loads them, `image_encoding` computes vectors with them

Used by `data.named`, `data.own` and `data.live`, which know what the files are for.
"""
