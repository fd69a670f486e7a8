"""What a mini-batch costs on this machine (`ofcl bench`).

workload   what is timed        breakdown   which part takes how long
peer       the paper's code beside it        summary   the table and its JSON
"""
