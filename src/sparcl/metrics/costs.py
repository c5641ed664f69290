"""What training costs: floating-point operations (FLOPs) counted layer by layer, and memory by the paper's formula.

A layer's forward pass for one sample costs 2 x (weights it uses) x (positions at which each weight is used); each half
of its backward pass costs as much again. A masked layer uses only its active weights, and needs gradients only of those
that are updated:

    forward           active weights
    backward data     active weights        the gradient handed down to the layer below
    backward weight   updated weights       the gradient of the weights
    refresh           active - updated      what an iteration needs more that chooses anew which weights are updated
    importance        3 x active            extra passes that decide which weights stay
    extra             1 or 3 x active       passes of a method beside training: an old network's, a Fisher information's

A frozen layer has no backward weight, and no backward data either if nothing below it is trained.

Two conventions read the same counts. `paper`: the three phases of the current batch, of a replayed batch only the
forward. `full`: everything. Counts are integers, so sums do not depend on their order and survive a checkpoint exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Convention = Literal["paper", "full"]
Weights = Mapping[str, int]  # how many weights of each masked layer; a layer that is not named uses all of its own

PAPER_PHASES = ("forward", "backward_data", "backward_weight", "replay_forward")
PHASES = (*PAPER_PHASES, "replay_backward_data", "replay_backward_weight", "refresh", "importance", "extra")
COUNTED: Mapping[Convention, Sequence[str]] = {"paper": PAPER_PHASES, "full": PHASES}

BYTES_PER_NUMBER = 4


@dataclass(frozen=True)
class LayerCost:
    """A convolution or linear layer."""

    name: str  # of its weight, as the parameters are named
    weights: int
    positions: int  # outputs in each channel: how often a weight is used for one sample
    masked: bool  # False: stays dense in a sparse network
    trained: bool = True  # False: frozen, so nobody needs the gradient of its weights
    passes_back: bool = True  # False: nothing below it is trained either, so it has no backward pass

    @property
    def macs(self) -> int:
        return self.weights * self.positions

    @property
    def passes(self) -> int:
        """How often its weights are used in a forward and backward pass."""
        return 1 + self.passes_back + self.trained

    def kept(self, sparsity: float) -> int:
        """How many weights are left when the share `sparsity` of them is taken away."""
        return self.weights - round(sparsity * self.weights) if self.masked else self.weights


@dataclass(frozen=True)
class NetworkCost:
    """What has to be known of a network to count."""

    layers: tuple[LayerCost, ...]
    parameters: int  # biases and normalisation included
    activations: int  # outputs of all convolutions with a backward pass, for one sample
    frozen_parameters: int = 0

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    def kept(self, sparsity: float) -> dict[str, int]:
        """The weights of each masked layer at a uniform sparsity."""
        return {layer.name: layer.kept(sparsity) for layer in self.layers if layer.masked}

    def density(self, sparsity: float) -> float:
        """Kept MACs over all MACs: more than 1 - sparsity, because some layers stay dense."""
        return sum(layer.kept(sparsity) * layer.positions for layer in self.layers) / self.macs

    def memory_bytes(self, batch: int, sparsity: float = 0.0, gradient_sparsity: float = 0.0, slots: int = 0) -> float:
        """The paper's formula: activations and their gradients, the weights, the gradients of the updated weights.

        `slots`: what the optimizer keeps for each weight, which the paper's does not. Frozen weights have neither
        gradients nor slots.
        """
        kept_share, updated_share = 1 - sparsity, 1 - (sparsity + gradient_sparsity)
        trained = self.parameters - self.frozen_parameters
        weights = kept_share * self.parameters + (updated_share + slots * kept_share) * trained
        return BYTES_PER_NUMBER * (2 * batch * self.activations + weights)


class CostCounter:
    """Adds up what really ran, or what a plan says will run."""

    def __init__(self, network: NetworkCost) -> None:
        self.network = network
        self.flops = {phase: [0] * len(network.layers) for phase in PHASES}  # of each layer

    def count_pass(
        self, samples: int, active: Weights, updated: Weights, *, replay: bool = False, refresh: bool = False
    ) -> None:
        """A forward and backward pass over so many samples.

        active: the weights in use. updated: those that an ordinary iteration updates; where none are named, the active.
        refresh: this iteration chooses the updated weights anew, so it needs the gradients of all active ones.
        """
        prefix = "replay_" if replay else ""
        forward, data = self.flops[prefix + "forward"], self.flops[prefix + "backward_data"]
        weight = self.flops[prefix + "backward_weight"]
        for place, layer in enumerate(self.network.layers):
            used = active.get(layer.name, layer.weights)
            changed = updated.get(layer.name, used)
            flops_per_weight = 2 * samples * layer.positions
            forward[place] += flops_per_weight * used
            data[place] += flops_per_weight * used * layer.passes_back
            weight[place] += flops_per_weight * changed * layer.trained
            if refresh and layer.trained:
                self.flops["refresh"][place] += flops_per_weight * (used - changed)

    def count_importance_pass(self, samples: int, active: Weights) -> None:
        """A forward and backward pass of which only the size of the gradients is used."""
        for place, layer in enumerate(self.network.layers):
            used = active.get(layer.name, layer.weights)
            self.flops["importance"][place] += layer.passes * 2 * samples * layer.positions * used

    def count_extra_pass(self, samples: int, active: Weights, backward: bool) -> None:
        """A pass from which nothing is learned at once: of an old network, or to find out something about the new."""
        for place, layer in enumerate(self.network.layers):
            used = active.get(layer.name, layer.weights)
            self.flops["extra"][place] += (layer.passes if backward else 1) * 2 * samples * layer.positions * used

    def total(self, convention: Convention) -> int:
        return sum(sum(self.flops[phase]) for phase in COUNTED[convention])

    def by_phase(self, convention: Convention) -> dict[str, int]:
        return {phase: sum(self.flops[phase]) for phase in COUNTED[convention]}

    def by_layer(self, convention: Convention) -> dict[str, int]:
        columns = zip(*(self.flops[phase] for phase in COUNTED[convention]), strict=True)
        return {layer.name: sum(column) for layer, column in zip(self.network.layers, columns, strict=True)}

    def to_json(self) -> dict[str, Any]:
        return {"layers": [layer.name for layer in self.network.layers], "flops": self.flops}

    def restore(self, state: Mapping[str, Any]) -> None:
        if state["layers"] != [layer.name for layer in self.network.layers] or set(state["flops"]) != set(PHASES):
            raise ValueError("the counted costs are those of another network")
        if any(len(state["flops"][phase]) != len(self.network.layers) for phase in PHASES):
            raise ValueError("the counted costs are not those of every layer")
        self.flops = {phase: [int(count) for count in state["flops"][phase]] for phase in PHASES}
