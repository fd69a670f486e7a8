"""Several runs at once on one machine: worker processes, each of which makes one run at a time.

work            a run to make, and what its worker reports of it
making          a list of runs, made several at once
pool            the worker processes of this command: starting, stopping, and hearing from them
worker          what runs in a worker process
machine         the GPU and the threads that each worker gets
opening         a run that is begun, gone on with, or read if it is finished
tally           sums of a run's events, for its progress

`ofcl run --seeds`, `ofcl reproduce` and `ofcl sweep` all make their runs here. A worker has its run
directory locked while it works, and ends by itself when the command that started it is gone.
May import `experiment` and what is below it.
"""
