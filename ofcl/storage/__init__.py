"""What a run leaves on disk, written so that a crash loses nothing.

run_directory   the folder of a run: settings, events, model, result
recorder        events as they happen, one line each
checkpoint      states: safetensors + JSON, never pickle; the last two are kept
atomic_files    files that are there whole or not at all
encryption      checkpoints under a key
memories        what memories have saved: listed, read, forgotten for good
image_grid      images in rows, as one picture
"""
