"""When and how a client communicates.

schedule   when: after which mini-batches, and where it waits at the end of a task
sharing    how: what it sends, and how it takes the global model
sender     its model as it leaves: clipped, noisy, coded, or kept back
"""
