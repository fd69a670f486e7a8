"""The files of runs, written so that a crash loses nothing.

run_directory   the folder of a run: settings, events, model, result
run_record      the events of a run so far: summed up, and written by the recorder
recorder        writes events as they happen, one line each
event_files     the files of events; those of endless runs are put aside
save_timer      when the next checkpoint is due
checkpoint      the last two states of a run, each complete or absent
state_files     one state as safetensors + JSON, never pickle
spare_parts     tensors that never change: checkpoints share their files
memories        clients' memories in checkpoints: reading, listing, deleting samples for good
encryption      checkpoints under a key
atomic_files    files that are complete or absent, never half written
locks           locks between processes, on every system
private_files   whether others can read a file of a key
image_grid      images in rows, as one picture

May import the settings, the results and the events; the engines and all above may import it.
"""
