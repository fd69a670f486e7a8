"""Parts of a user's own: networks, losses, methods and others that are not in this package.

kinds          the kinds of parts, and the entry points by which installed packages announce theirs
lookup         finds a part by its name, by a path `module:name`, or among those handed over
handed_over    parts that somebody gave as Python objects
part_identity  tells one version of a part from another, so that a run goes on with the same code
permission     code is only imported if the person at this machine has named it

A part is named by a setting. Names with a colon are paths to Python code. May import `errors`.
"""
