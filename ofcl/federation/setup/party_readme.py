"""The README in the folder that a party is handed."""

from __future__ import annotations

from ofcl.federation.setup.folders import Federation


def party_readme(federation: Federation, party: str) -> str:
    """Gives the text of the README for a party's folder, in Markdown.

    Args:
        federation: The federation.
        party: The name of the party.
    """
    return f"""# {party} in the federation "{federation.name}"

This folder is for {party} alone. `key` says who you are: whoever has it can take part as you.
Keep it where only the account that runs the client can read it, and do not send it by mail.

    pip install 'ofcl[flower]'
    ofcl federation client {party} --dataset DATA

DATA is a dataset (a folder of images, a CSV or NPZ file, a name of `ofcl data list`), a folder
in which files arrive (`watch:FOLDER`), or `-` for standard input.

The server is at {federation.address}. Your machine calls it; nothing has to be opened in your
firewall for incoming connections. Your samples stay here. What leaves is the model, and a few
counts; `audit.jsonl` in this folder lists every field of every message, and its bytes. The
memory of samples is in `runs/`: it is personal data. `ofcl federation client --help` says how
to encrypt it, `ofcl memory forget --help` how to delete a sample from it.

After each task and at the end of a run this folder has the model that all have learned:

    ofcl predict {party} INPUT

With `--local-too` a second model learns from your data alone, and the log says whether taking part
helps you. With `--cross-site` you agree that in runs that ask for it the others who agree test your
model on their data, and you test theirs on yours.
"""
