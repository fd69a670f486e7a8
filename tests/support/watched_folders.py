"""Watched folders, and files that are written into them."""

from ofcl import Reading, WatchedFolder


def watch(folder, idle=None, **how):
    return WatchedFolder(folder, Reading(**how), idle=idle)


def write_csv(path, *rows):
    path.write_text("u,v,label\n" + "".join(f"{u},{v},{label}\n" for u, v, label in rows))


def append(path, text):
    with path.open("a") as file:
        file.write(text)
