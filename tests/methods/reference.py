"""The same network differentiated by plain autograd, on a copy: what a method's step is compared with."""

from sparcl.network.torch import TorchNetwork


def torch_copy(network):
    return TorchNetwork(network.graph, network.parameters.copy())


def gradient(network, terms, train=True):
    """Gradient of the sum of losses, each on its own forward: terms of (images, function of torch logits)."""
    copy = torch_copy(network)
    total = sum(loss(copy.forward(images, train=train)[1]) for images, loss in terms)
    total.backward()
    return copy.parameters.gradients.flat
