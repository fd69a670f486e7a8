"""The paper's tables run again: what the paper says, what to run, how far the two are apart.

paper   the published values      plan       runs of a table
toy     its figure of a toy set   verdicts   ours beside theirs
"""
