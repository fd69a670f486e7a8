"""The local engine: clients that start later than others."""

import os
import subprocess
import sys

import ofcl
from ofcl import Run, make_settings
from ofcl.events import Learned, Round
from tests.conftest import TINY
from tests.test_experiment import assert_same, whole

LATE = {**TINY, "clients": 3, "batch_size": 3, "method": "er", "stagger": 8}


def test_clients_start_one_after_the_other(blobs):
    run = Run(make_settings(LATE), blobs)
    first_events = {}
    learned = 0
    rounds = []
    for event in run:
        if isinstance(event, Learned):
            learned += event.client == 0
            first_events.setdefault(event.client, learned)
        if isinstance(event, Round):
            rounds.append(event.clients)
    assert first_events[0] == 1
    assert 8 <= first_events[1] <= 9
    assert 16 <= first_events[2] <= 17
    assert rounds[0] == [0, 1]
    assert [0, 1, 2] in rounds
    assert rounds[-1] == [1, 2]  # the first has ended by then


def test_a_late_client_starts_from_the_global_model(blobs):
    run = Run(make_settings(LATE), blobs)
    client = run.clients[2]
    received = []
    receive = client.receive
    client.receive = lambda model: (received.append(run.server.round), receive(model))
    for event in run:
        if isinstance(event, Learned) and event.client == 2:
            break
    assert len(received) == 1
    assert received[0] > 0  # rounds have been before it came


def test_one_that_starts_after_all_others_have_ended(blobs):
    run = Run(make_settings({**LATE, "stagger": 1000}), blobs)
    assert [e for e in run if isinstance(e, Round)] == []
    assert sum(e.batches for e in run.events if isinstance(e, Learned)) == run.batches


def test_it_can_be_resumed(tmp_path, blobs):
    made = make_settings({**LATE, "checkpoint_every": 4})
    for _ in Run(made, blobs, tmp_path / "whole"):
        pass
    for stop_after in (3, 20, 31, 47):
        broken = tmp_path / f"stopped after {stop_after}"
        for n, _ in enumerate(Run(made, blobs, broken), 1):
            if n == stop_after:
                break
        ofcl.resume(broken, dataset=blobs)
        for one, other in zip(whole(tmp_path / "whole"), whole(broken), strict=True):
            assert_same(one, other)


def test_many_clients_cost_only_the_bytes_of_their_state():
    """Each has a model, a copy that scores, what Adam has gathered, a memory: about 0.7 MB."""
    script = """
import resource, ofcl
from ofcl import Run, make_settings
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
values = {"protocol": "sound", "dataset": "digits", "model": "mlp", "participation": 0.01,
          "tasks": 2, "batch_size": 1, "burn_in": 0, "q": 1, "method": "bi", "memory": 20,
          "validation": 0.0, "steps": 1, "noise_copies": 2}
for _ in Run(make_settings({**values, "clients": 10, "limit": 2})):
    pass
before = peak()
run = Run(make_settings({**values, "clients": 200, "limit": 1}))
for _ in run:
    pass
print(run.result().rounds, peak() - before)
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=environment, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rounds, megabytes = map(float, done.stdout.split())
    assert rounds > 0
    assert megabytes < 200 * 1.0
