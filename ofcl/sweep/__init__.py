"""Searching for settings (`ofcl sweep`), with Optuna: many trials, each judged by validation.

space        the settings that are searched, and their ranges
sweep_file   the sweep's file (TOML), and the folder of a sweep
study        the trials so far, in a database (SQLite) that outlasts a kill
searching    the loop: trials are begun, judged, stopped early, and gone on with
findings     the best trial beside the default, and its settings as a file for `ofcl run`
sweep_page   the page of a sweep

Trials are runs like any others, made by `jobs`. May import `jobs`, `report` and what is below them.
"""
