"""The form of samples: images, texts, standardised numbers."""

import numpy as np

from ofcl.data.live.form import Form, Pattern
from ofcl.data.live.iterator_feed import IteratorFeed
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.vocabulary import Vocabulary
from tests.support.live_streams import drain, stream


def test_images_in_any_layout():
    form = Form(Pattern())
    grey = form.check(np.full((4, 6), 255, dtype=np.uint8))
    assert grey.shape == (1, 4, 6)
    assert form.to_tensor([grey]).unique().tolist() == [2.0]  # (1 − 0.5) / 0.25
    colour = Form(Pattern()).check(np.full((4, 6, 3), 0.5))
    assert colour.shape == (3, 4, 6)
    assert colour.dtype == np.uint8
    assert colour.max() == 128


def test_texts_are_embedded_as_they_come(tmp_path, monkeypatch):
    asked = []

    def encode(texts):
        asked.append(texts)
        return np.array([[len(t), 1] for t in texts], dtype=np.float32)

    monkeypatch.setattr("ofcl.data.files.embeddings.load_encoder", lambda embedder: encode)
    form = Form(Pattern(), embedder="some/model", root=tmp_path)
    live = LiveStream(0, IteratorFeed([("hello", "a"), ("you", "b"), ("hello", "a")]), form,
                      Vocabulary(), batch_size=2)  # fmt: skip
    assert drain(live) == [([[5, 1], [3, 1]], [0, 1], None), ([[5, 1]], [0], None)]
    assert asked == [["hello", "you"]]  # the third was known
    assert form.empty_dataset("stream", ()).shape == (2,)


def test_numbers_are_standardised_by_the_first_window():
    items = [([float(x), 7.0], "a") for x in (1, 3, 1, 3, 5)]
    live = stream(IteratorFeed(items), batch_size=2, window=4)
    x = [x for x, _, _ in drain(live)]
    assert x == [[[-1, 0], [1, 0]], [[-1, 0], [1, 0]], [[3, 0]]]


def test_a_window_that_never_fills_is_used_at_the_end():
    live = stream(IteratorFeed([([1.0], "a"), ([3.0], "a")]), window=100)
    assert [x for x, _, _ in drain(live)] == [[[-1], [1]]]
