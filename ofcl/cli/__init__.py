"""The command line: one module a group of commands, thin over the rooms below.

main            the commands `run`, `resume`, `compare`, `list`, `demo`
…_command(s)    the other commands
run_loop        drives a run and shows progress; `progress`, `show`, `terminal` print
"""
