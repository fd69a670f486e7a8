"""The command line: one module for each group of commands, thin over the other packages.

main            the commands `run`, `resume`, `compare`, `list`, `demo`
…_command(s)    the other commands
run_loop        runs a run and shows it: `progress` (from a `tally`), `show`, `terminal` print

May import everything; nothing may import it.
"""
