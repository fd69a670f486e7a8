"""The server of a federation: whom it waits for, how long, and what it believes.

stage             a run between parties, as `experiment` drives it
courier           asks parties and waits for their answers, over any `Transport`
run_list          one run at a time, and which was the last
flower_server     Flower's server in this process, behind a guard
flower_messages   requests and answers of a run as Flower's messages
"""
