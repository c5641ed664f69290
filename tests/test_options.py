"""Options of methods and sparsifiers: what they mean, and what a class must say of them."""

from typing import Annotated

import pytest

from sparcl.errors import SparclError
from sparcl.methods import METHODS
from sparcl.options import declared_options, option_meanings
from sparcl.sparsity import SPARSIFIERS


@pytest.mark.parametrize("owner", [*METHODS.values(), *SPARSIFIERS.values()], ids=lambda owner: owner.name)
def test_every_option_says_what_it_means(owner):
    assert declared_options(owner).keys() <= option_meanings(owner).keys()


class General:
    rate: Annotated[float, "how fast"] = 0.1
    silent: int = 3


class Special(General):
    rate: float = 0.2
    size: Annotated[int, "how large"] = 5


def test_a_changed_default_keeps_its_meaning():
    assert option_meanings(Special) == {"rate": "how fast", "size": "how large"}
    assert {name: default for name, (_, default) in declared_options(Special).items()} == {
        "rate": 0.2,
        "silent": 3,
        "size": 5,
    }


def test_an_option_without_a_default_is_named():
    class Forgetful:
        margin: float

    with pytest.raises(SparclError, match="margin of Forgetful has no default"):
        declared_options(Forgetful)
