"""When the next checkpoint is due."""

import pytest

from ofcl.storage.save_timer import SaveTimer


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_by_mini_batches():
    timer = SaveTimer(3)
    timer.learned(2)
    assert not timer.due()
    timer.learned(1)
    assert timer.due()
    with timer.saving():
        pass
    assert not timer.due()


def test_by_time_if_something_was_learned():
    clock = Clock()
    timer = SaveTimer(None, clock)
    clock.now = 60
    assert not timer.due()
    assert not timer.due_while_waiting()
    timer.learned(1)
    assert timer.due()
    assert timer.due_while_waiting()


@pytest.mark.parametrize(("seconds", "due"), [(99, False), (100, True)])
def test_saving_that_takes_long_is_done_less_often(seconds, due):
    clock = Clock()
    timer = SaveTimer(None, clock)
    with timer.saving():
        clock.now += 5
    timer.learned(1)
    clock.now += seconds
    assert timer.due() == due
    assert timer.due_while_waiting()  # there is nothing else to do
