"""The paper's tables run again: its numbers, the runs to make, and how far ours are from them.

paper      the numbers of the paper (`values/`), and the settings for each of them
plan       the runs of a table, and how long they will take
verdicts   our results beside the paper's
toy        Figure 2 of the paper

May import everything but `cli`, which may import it.
"""
