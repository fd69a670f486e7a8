"""Clients elsewhere, in one process: what is sent passes through the wire format."""

import torch

from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.assembly.make_server import build_coded_models
from ofcl.engines.local import LocalEngine
from ofcl.engines.messages import pack_request, unpack_request
from ofcl.engines.remote import RemoteEngine
from ofcl.engines.responder import Responder
from ofcl.state import flatten, unflatten


def over_the_wire(state):
    """What arrives of a state: tensors by name, and JSON."""
    tensors, tree = flatten(state)
    return unflatten({name: tensor.clone() for name, tensor in tensors.items()}, tree)


class InProcessChannel:
    """A channel to clients in this process; every message passes through the wire format."""

    def __init__(self, folder, settings, data):
        self.settings, self.data, self.folder = settings, data, folder
        self.responders = {}
        for client in range(settings.clients):
            self.start(client)

    def start(self, client):
        """A client's process begins, for the first time or again."""

        def make():
            return dataset_participants(self.settings, self.data).clients[client]

        self.responders[client] = Responder(self.folder / str(client), make)

    def carry(self, client, request):
        received = unpack_request(over_the_wire(pack_request(request)))
        return over_the_wire(self.responders[client].answer(received))

    def exchange(self, requests):
        return {client: self.carry(client, request) for client, request in requests.items()}


def remotely(tmp_path, settings, data, channel=InProcessChannel, **how):
    parties = dataset_participants(settings, data)
    reached = channel(tmp_path, parties.settings, data)
    how.setdefault("coded", build_coded_models(parties.settings, parties.server))
    engine = RemoteEngine(settings.clients, reached, run="run", tell=lambda _: None, **how)
    return list(federate(engine, parties.server)), parties.server, reached


def locally(settings, data):
    parties = dataset_participants(settings, data)
    return list(federate(LocalEngine(parties.clients), parties.server)), parties.server


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
