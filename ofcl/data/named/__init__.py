"""Datasets by name: the paper's eight, and two that come with the package.

catalogue    the table of names: `DATASETS`
source       one entry of that table; `download` downloads its files
builtin      `digits` and `fashion-mini`
cifar, medmnist, newsgroups, tinyimagenet, topics    readers of the official formats
"""
