"""The server's side of coded messages: what each client has, so that differences can be read."""

from __future__ import annotations

from dataclasses import replace

from ofcl.compression.codecs import Codec
from ofcl.compression.differences import decoded
from ofcl.compression.steps import Steps
from ofcl.engines.messages import Reply, Request
from ofcl.state import State, Tensors, same_tensors


class CodedModels:
    """Sends clients steps of the global model, and makes their coded updates whole.

    Args:
        codec: How updates are coded.
        steps: The steps of the global model.
        seed: The run's seed, from which the outputs of new classes are drawn.
    """

    def __init__(self, codec: Codec, steps: Steps, seed: int) -> None:
        self._codec, self._steps, self._seed = codec, steps, seed
        self._known: dict[int, Tensors] = {}  # the model of each client's last answered request
        self._bases: dict[int, Tensors] = {}  # the model that each client took last

    def shortened(self, client: int, request: Request) -> Request:
        """Makes the request that travels: its model as a step, if the client has the one before.

        Args:
            client: The number of the client.
            request: The request with the whole model.
        """
        if not request.model or request.by_itself:
            return request
        form = self._steps.form(self._known.get(client, {}), request.model)
        models = {"whole": request.model, "step": self._steps.tensors, "same": {}}
        return replace(request, model=models[form], form=form)

    def whole(self, answer: State, request: Request, client: int) -> State:
        """Gives an answer whose update has the tensors of the client's model.

        Args:
            answer: The answer as it has come; it may be anything.
            request: The request, with the whole model.
            client: The number of the client.

        Raises:
            OfclError: If the update was coded for another base than the server knows of.
            Exception: If the answer is not of the form that an answer has.
        """
        update = answer["update"]
        if update is None or not update.get("coded"):
            return answer
        base = request.model if "take" in request.steps else self._bases[client]
        state = decoded(update["coded"], base, self._codec, self._seed)
        return {**answer, "update": {**update, "state": state}}

    def note(self, reply: Reply, request: Request) -> None:
        """Notes which models a client has, after its answer was found to be right.

        Args:
            reply: The reply.
            request: The request, with the whole model.
        """
        if reply.status == "asking" or not request.model or request.by_itself:
            return
        self._known[reply.client] = dict(request.model)
        if "take" in request.steps:
            self._bases[reply.client] = dict(request.model)

    def missed(self, client: int) -> None:
        """Forgets which model a client has: it may have answered or not.

        Args:
            client: The number of the client.
        """
        self._known.pop(client, None)

    def state(self) -> State:
        """Gives the models that clients took last, each once, for a checkpoint."""
        models: list[Tensors] = []
        of_clients: dict[str, int] = {}
        for client, base in self._bases.items():
            places = [n for n, model in enumerate(models) if same_tensors(model, base)]
            of_clients[str(client)] = places[0] if places else len(models)
            models += [] if places else [base]
        return {"models": models, "of_clients": of_clients}

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave; the next models travel whole.

        Args:
            state: The state; empty: nobody has taken a model.
        """
        self._known = {}
        models: list[Tensors] = state.get("models", [])
        of_clients: dict[str, int] = state.get("of_clients", {})
        self._bases = {int(client): models[place] for client, place in of_clients.items()}
