"""A network as it was at one moment: it predicts, and is never trained again."""

from typing import Any

from numpy.typing import NDArray

from sparcl.network.protocol import Images, Logits, Network

Arrays = dict[str, NDArray[Any]]


class FrozenNetwork:
    """A copy with memory of its own. Its state is enough to make it again beside a network of the same graph."""

    def __init__(self, network: Network) -> None:
        self.network = network.with_parameters(network.parameters.copy())

    def predict(self, images: Images) -> Logits:
        return self.network.predict(images)

    def state(self) -> Arrays:
        parameters = self.network.parameters
        index = {f"index.{name}": positions for name, positions in parameters.index.items()}
        return {"values": parameters.values.flat, "statistics": parameters.statistics.flat, **index}

    @classmethod
    def restored(cls, network: Network, state: Arrays) -> "FrozenNetwork":
        """As `network`, but with the numbers of a state; raises ValueError or KeyError if they do not fit."""
        frozen = cls(network)
        prefix = "index."
        parameters = frozen.network.parameters
        parameters.set_index({key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)})
        for store, numbers in ((parameters.values, state["values"]), (parameters.statistics, state["statistics"])):
            if numbers.shape != store.flat.shape or numbers.dtype != store.flat.dtype:
                raise ValueError("the numbers of an earlier network do not fit it")
            store.flat[...] = numbers
        return frozen
