"""The command line: one module for each group of commands, thin over the other packages.

main            puts the commands together, and prints errors
logs            the log: plain lines for people, or lines of JSON
…_command(s)    the commands; those of `ofcl federation` are in organise, federation_server,
                take_part and watch_command
…_options       options that several commands have
several_seeds   `ofcl run --seeds`
run_loop        runs a run and shows it: `progress` (from a `tally`), `show`, `terminal` print
run_names       names of new run directories

May import everything; nothing may import it.
"""
