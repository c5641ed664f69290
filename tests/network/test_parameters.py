import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcl.graph import build_model
from sparcl.network import Parameters, Sgd


def test_views_cover_the_flat_array_exactly_once():
    parameters = Parameters(build_model("resnet18", (3, 16, 16), 5, 4))
    for name in parameters.values:
        parameters.values[name][...] += 1
    assert (parameters.values.flat == 1).all()


def test_initialisation_is_pytorchs_default():
    """Uniform in +-1/sqrt(fan-in): the bound and the variance tell; batch normalisation is the identity."""
    graph = build_model("resnet18", (3, 16, 16), 50, 32)
    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    reference = torch.nn.Conv2d(128, 256, 3).weight.detach().numpy()
    ours = parameters.values["stage4.block1.conv1.weight"]
    assert ours.shape == reference.shape
    np.testing.assert_allclose([ours.std(), ours.max()], [reference.std(), reference.max()], rtol=0.01)
    np.testing.assert_allclose(parameters.values["classifier.bias"].max(), 256**-0.5, rtol=0.1)
    assert (parameters.values["stem.bn.weight"] == 1).all()
    assert (parameters.statistics["stem.bn.running_var"] == 1).all()
    assert (parameters.statistics["stem.bn.running_mean"] == 0).all()


@settings(deadline=None)
@given(st.sampled_from([0.0, 0.9]), st.sampled_from([0.0, 5e-4]), st.integers(0, 1000))
def test_sgd_agrees_with_torch(momentum, decay, seed):
    generator = np.random.default_rng(seed)
    parameters = Parameters(build_model("convnet", (1, 4, 4), 3, 2))
    parameters.values.flat[...] = generator.normal(size=parameters.values.flat.size)
    optimizer = Sgd(parameters, 0.1, momentum, decay)
    reference = torch.nn.Parameter(torch.from_numpy(parameters.values.flat.copy()))
    torch_sgd = torch.optim.SGD([reference], lr=0.1, momentum=momentum, weight_decay=decay)
    for _ in range(3):
        gradient = generator.normal(size=parameters.values.flat.size).astype(np.float32)
        parameters.gradients.flat[...] = gradient
        reference.grad = torch.from_numpy(gradient)
        optimizer.step()
        torch_sgd.step()
        assert not parameters.gradients.flat.any()
    np.testing.assert_allclose(parameters.values.flat, reference.detach().numpy(), rtol=1e-5, atol=1e-6)
