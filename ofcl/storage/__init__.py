"""The files of runs, written so that a crash loses nothing.

run_directory   the folder of a run: settings, events, model, result
recorder        events as they happen, one line each
checkpoint      the last two states of a run, each there whole or not at all
state_files     one state as safetensors + JSON, never pickle
memories        clients' memories in checkpoints: read, listed, forgotten for good
encryption      checkpoints under a key
atomic_files    files that are there whole or not at all
image_grid      images in rows, as one picture

May import the settings, the results and the events; the engines and all above may import it.
"""
