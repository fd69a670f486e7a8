"""The catalogue of named datasets: their contents, origins and licences."""

from __future__ import annotations

from ofcl.data.named import cifar, medmnist, newsgroups, tinyimagenet, topics
from ofcl.data.named.builtin import digits, fashion_mini
from ofcl.data.named.download import Archive
from ofcl.data.named.source import Source

_CIFAR = "https://www.cs.toronto.edu/~kriz"
_MEDMNIST = "https://zenodo.org/records/10519652/files"

DATASETS: dict[str, Source] = {
    "digits": Source(
        "Scikit-learn's digits, 8 × 8, grey; built in", "image", 10, 1437, 360, "CC BY 4.0", digits
    ),
    "fashion-mini": Source(
        "a part of Fashion-MNIST, 28 × 28, grey; built in", "image", 10, 6000, 1000, "MIT",
        fashion_mini,
    ),
    "cifar10": Source(
        "photographs of ten things, 32 × 32, colour", "image", 10, 50_000, 10_000, "research use",
        cifar.cifar10,
        files=("cifar-10-batches-py",),
        archive=Archive(f"{_CIFAR}/cifar-10-python.tar.gz",
                        "md5:c58f30108f718f92721af3b95e74349a", "cifar-10-python.tar.gz"),
        megabytes=170,
    ),
    "cifar100": Source(
        "photographs of a hundred things, 32 × 32, colour", "image", 100, 50_000, 10_000,
        "research use", cifar.cifar100,
        files=("cifar-100-python",),
        archive=Archive(f"{_CIFAR}/cifar-100-python.tar.gz",
                        "md5:eb9058c3a382ffc7106e4002c42a8d85", "cifar-100-python.tar.gz"),
        megabytes=169,
    ),
    "tinyimagenet": Source(
        "photographs of 200 things, 64 × 64, colour", "image", 200, 100_000, 10_000,
        "research use", tinyimagenet.tinyimagenet,
        files=("tiny-imagenet-200",),
        archive=Archive("http://cs231n.stanford.edu/tiny-imagenet-200.zip",
                        "md5:90528d7ca1a48142e341f4ef8d21d0de", "tiny-imagenet-200.zip"),
        megabytes=248,
    ),
    "crc-tissue": Source(
        "PathMNIST: colorectal cancer, 28 × 28, colour", "image", 9, 89_996, 7180, "CC BY 4.0",
        medmnist.crc_tissue,
        files=("pathmnist.npz",),
        archive=Archive(f"{_MEDMNIST}/pathmnist.npz?download=1",
                        "md5:a8b06965200029087d5bd730944a56c1", "pathmnist.npz"),
        megabytes=206,
    ),
    "kc-cell": Source(
        "TissueMNIST: kidney cortex cells, 28 × 28, grey", "image", 8, 165_466, 47_280,
        "CC BY 4.0", medmnist.kc_cell,
        files=("tissuemnist.npz",),
        archive=Archive(f"{_MEDMNIST}/tissuemnist.npz?download=1",
                        "md5:ebe78ee8b05294063de985d821c1c34b", "tissuemnist.npz"),
        megabytes=125,
    ),
    "20newsgroups": Source(
        "messages to 20 newsgroups, split by date", "text", 20, 11_314, 7532, "research use",
        newsgroups.newsgroups,
        files=("20news-bydate-train", "20news-bydate-test"),
        archive=Archive("https://ndownloader.figshare.com/files/5975967",
                        "sha256:8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
                        "20news-bydate.tar.gz"),
        megabytes=14,
    ),
    "dbpedia": Source(
        "abstracts of 14 kinds of things", "text", 14, 560_000, 70_000, "CC BY-SA 3.0",
        topics.dbpedia,
        files=("dbpedia/train.parquet", "dbpedia/test.parquet"),
        alternative=("dbpedia_csv/train.csv", "dbpedia_csv/test.csv"),
        hub=topics.from_hub("dbpedia", "fancyzhx/dbpedia_14"),
        megabytes=120,
    ),
    "yahoo": Source(
        "questions and answers on ten topics", "text", 10, 1_400_000, 60_000, "research use",
        topics.yahoo,
        files=("yahoo/train.parquet", "yahoo/test.parquet"),
        alternative=("yahoo_answers_csv/train.csv", "yahoo_answers_csv/test.csv"),
        hub=topics.from_hub("yahoo", "community-datasets/yahoo_answers_topics"),
        megabytes=530,
    ),
}  # fmt: skip
"""Every dataset by name. A new one is a reader in a file of this folder and an entry here."""
