"""Values from outside become typed objects, or an error that leads to the first wrong one."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparcl.checked import Bounds, Checked, WrongValueError, check, plain, setting

Share = Annotated[float, Bounds(ge=0, le=1)]


class Inner(Checked):
    size: int = setting(default=4, ge=1, lt=100)
    place: Path | None = None


class Outer(Checked):
    name: str
    share: Share = 0.5
    mode: Literal["slow", "fast"] | None = None
    switch: bool = False
    inner: Inner = Inner()
    pair: tuple[int, float] = (1, 2.0)
    seeds: Annotated[int, Bounds(ge=1)] | list[int] = 1
    ages: dict[int, Share] = setting(factory=dict)
    anything: Any = None


class Lenient(Checked, ignores_unknown=True):
    size: int = 1


class LenientToo(Lenient):
    more: int = 2


@dataclass
class Ordinary:
    count: Annotated[int, Bounds(ge=0)]


def test_given_values_are_typed_and_the_others_have_their_defaults():
    found = check(Outer, {"name": "a", "share": 1, "inner": {"place": "/tmp"}, "pair": [3, 4], "ages": {"7": 0.25}})
    assert found == Outer(name="a", share=1.0, inner=Inner(place=Path("/tmp")), pair=(3, 4.0), ages={7: 0.25})
    assert isinstance(found.share, float) and isinstance(found.pair[1], float)
    assert check(Ordinary, {"count": 3, "whatever": 4}) == Ordinary(3)
    assert check(LenientToo, {"size": 5, "newer": "field"}) == LenientToo(size=5)
    assert check(Outer, {"name": "a", "inner": Inner(size=2)}).inner.size == 2


def test_defaults_are_not_shared():
    check(Outer, {"name": "a"}).ages[3] = 0.5
    assert check(Outer, {"name": "a"}).ages == {}


@pytest.mark.parametrize(
    ("change", "path", "sort", "problem"),
    [
        ({"name": 3}, "name", "value", "a text"),
        ({"share": 1.5}, "share", "value", "at most 1"),
        ({"share": "much"}, "share", "value", "a number"),
        ({"share": True}, "share", "value", "a number"),
        ({"share": float("nan")}, "share", "value", "finite"),
        ({"share": 10**400}, "share", "value", "finite"),
        ({"mode": "medium"}, "mode", "value", "choose one of: slow, fast"),
        ({"mode": []}, "mode", "value", "choose one of: slow, fast"),
        ({"switch": 1}, "switch", "value", "true or false"),
        ({"inner": 3}, "inner", "value", "it is a section"),
        ({"inner": {"size": 0}}, "inner.size", "value", "at least 1"),
        ({"inner": {"size": 100}}, "inner.size", "value", "less than 100"),
        ({"inner": {"size": 2.5}}, "inner.size", "value", "a whole number"),
        ({"inner": {"size": True}}, "inner.size", "value", "a whole number"),
        ({"inner": {"place": "a\0b"}}, "inner.place", "value", "a path"),
        ({"inner": {"sise": 3}}, "inner.sise", "unknown", "nothing is called so"),
        ({"pair": [1]}, "pair", "value", "a list of 2"),
        ({"pair": [1, "x"]}, "pair.1", "value", "a number"),
        ({"seeds": 0}, "seeds", "value", "it must be at least 1"),
        ({"seeds": [1, "x"]}, "seeds.1", "value", "a whole number"),
        ({"seeds": "x"}, "seeds", "value", "it must be a whole number, or it must be a list"),
        ({"ages": {"x": 0.5}}, "ages.x", "value", "a whole number"),
        ({"ages": {"1": 2}}, "ages.1", "value", "at most 1"),
        ({"ages": []}, "ages", "value", "a table"),
    ],
)
def test_what_is_wrong_is_named(change, path, sort, problem):
    with pytest.raises(WrongValueError) as caught:
        check(Outer, {"name": "a", **change})
    assert (".".join(caught.value.path), caught.value.sort) == (path, sort)
    assert problem in caught.value.problem


def test_what_is_missing_or_no_section_at_all_is_named():
    with pytest.raises(WrongValueError) as caught:
        check(Outer, {})
    assert (caught.value.path, caught.value.sort) == (["name"], "missing")
    with pytest.raises(WrongValueError, match="it is a section"):
        check(Outer, ["name"])


def test_unknown_names_come_with_the_known_ones():
    with pytest.raises(WrongValueError) as caught:
        check(Outer, {"name": "a", "inner": {"sise": 3}})
    assert caught.value.known == ["size", "place"]


@given(
    st.builds(
        Outer,
        name=st.text(),
        share=st.floats(0, 1),
        mode=st.sampled_from([None, "slow", "fast"]),
        switch=st.booleans(),
        inner=st.builds(Inner, size=st.integers(1, 99), place=st.sampled_from([None, Path("a/b")])),
        pair=st.tuples(st.integers(), st.floats(-1e300, 1e300)),
        seeds=st.integers(1, 9) | st.lists(st.integers()),
        ages=st.dictionaries(st.integers(0, 10**18), st.floats(0, 1)),
    )
)
def test_plain_values_survive_json_and_make_the_same_object(made):
    assert check(Outer, json.loads(json.dumps(plain(made)))) == made


def test_objects_are_frozen_and_replaced():
    made = Outer(name="a")
    with pytest.raises(AttributeError):
        made.name = "b"
    assert replace(made, name="b") == Outer(name="b")
