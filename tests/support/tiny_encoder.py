"""A tiny encoder of texts with random weights, and texts of its few words."""

from pathlib import Path

import torch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LABELS = ("red", "green", "blue", "a")


def write_encoder(folder: Path) -> str:
    """Writes a tiny BERT of random weights, and returns its name for settings."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words, folder = [*SPECIAL, *LABELS, "is"], folder / "tiny-bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words))
    how = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=12,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(how).save_pretrained(folder)
    BertTokenizerFast(vocab={word: n for n, word in enumerate(words)}).save_pretrained(folder)
    return f"hf:{folder}"


def write_texts(path: Path, first: int = 0) -> Path:
    """Writes a table of 48 short texts with four labels; another `first` gives other texts."""
    lines = [f"{'is ' * ((n + first) % 3)}{LABELS[n % 4]} {LABELS[n % 4]},{LABELS[n % 4]}"
             for n in range(48)]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    return path
