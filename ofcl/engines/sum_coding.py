"""The change of a client's model since the global model, coded for a secure sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ofcl.client import Client
from ofcl.compression.differences import checksum
from ofcl.state import Tensors


@dataclass(frozen=True)
class SumCoding:
    """Codes the update that waits for a sum (`secure_sum.coding.SumCoder`).

    Args:
        client: The client, which keeps what the coding loses.
        state: The tensors of its update.
        known: The global model of the server's last request.
    """

    client: Client
    state: Tensors
    known: Tensors

    def base(self) -> int:
        """Computes the checksum of the global model; 0 if the client has none."""
        return checksum(self._base()) if self.known else 0

    def reach(self) -> dict[str, float]:
        """Computes how far the change goes, with what was lost before, for each tensor."""
        return self.client.sender.reach_of_sum(self._state(), self._base())

    def code(
        self, outputs: int, steps: Mapping[str, float], share: float, most: int
    ) -> tuple[Tensors, Tensors]:
        """Codes the change since the global model, and what was lost before.

        Args:
            outputs: How many outputs the heads of all clients have.
            steps: The step of each tensor.
            share: The client's share of all weights, by which the change is multiplied.
            most: The largest integer.

        Returns:
            Integers by the names of tensors, and the tensors that are not coded.
        """
        return self.client.sender.for_sum(self._state(), self._base(), outputs, steps, share, most)

    def _state(self) -> Tensors:
        """Gives the tensors of the update on the CPU."""
        return {name: value.cpu() for name, value in self.state.items()}

    def _base(self) -> Tensors:
        """Gives the tensors of the global model that the update has, too."""
        return {name: self.known[name].cpu() for name in self.state}
