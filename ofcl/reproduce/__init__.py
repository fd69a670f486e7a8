"""The paper's tables run again, and all methods side by side: the runs to make, and their pages.

paper        the numbers of the paper (`values/`), and the settings for each of them
plan         the runs of a table
timing       how long they will take on this machine
verdicts     our results beside the paper's
field        the runs of all methods of the package on four datasets
standings    what each method reaches in the field, and what it costs
ranking      ranks of methods with intervals
field_page   the pages of the field
toy          Figure 2 of the paper

May import everything but `cli`, which may import it.
"""
