"""Learners with the backbone of the package: learning at once, in any order, and taking back."""

import itertools
import warnings

import numpy as np
import pytest
from drawings import COLOURS, content_of, draw, drawn, make
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparcl import Learner, SparclError
from sparcl.instant.kept import Kept

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def taught(directory, pictures, **changes):
    learner = make(directory, **changes)
    if pictures:
        learner.learn(pictures)
    return learner


def test_a_few_pictures_are_enough_and_what_is_strange_is_unknown(tmp_path):
    learner = taught(tmp_path / "shop", {name: drawn(name, 8) for name in ("apples", "pears", "plums")})
    new = [(name, draw(name, seed)) for name in ("apples", "pears", "plums") for seed in range(100, 110)]
    answers = [learner.predict([picture], always=True)[0] for _, picture in new]
    assert np.mean([answer.name == name for answer, (name, _) in zip(answers, new, strict=True)]) > 0.9
    noise = [np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8) for seed in range(10)]
    assert [answer.name for answer in learner.predict(noise)].count("unknown") >= 8
    assert all(answer.name != "unknown" for answer in learner.predict(noise, always=True))


def test_order_and_portions_do_not_matter(tmp_path):
    pictures = {name: drawn(name, 4) for name in ("pears", "apples", "plums")}
    at_once = taught(tmp_path / "once", pictures)
    expected = content_of(at_once)
    for number, order in enumerate(itertools.permutations(pictures)):
        learner = make(tmp_path / str(number))
        for name in order:
            for picture in reversed(pictures[name]):
                learner.learn({name: [picture]})
        assert content_of(learner) == expected
    probe = drawn("lemons", 3)
    answers = [learner.predict(probe) for learner in (at_once, learner)]
    assert [a.confidences for a in answers[0]] == [a.confidences for a in answers[1]]


def test_the_pictures_that_are_kept_do_not_depend_on_when_they_came(tmp_path):
    pictures = drawn("apples", 9)
    first, second = (taught(tmp_path / name, {"pears": drawn("pears", 2)}, keep=4) for name in ("first", "second"))
    first.learn({"apples": pictures})
    for picture in reversed(pictures):
        second.learn({"apples": [picture]})
    assert content_of(first) == content_of(second)
    assert first.status()["classes"][0]["kept"] == 4


NOTHING = (frozenset(), frozenset())
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("learn", "correct", "deny", "forget picture", "forget class", "rename", "undo")),
        st.sampled_from(tuple(COLOURS)),
        st.sampled_from(tuple(COLOURS)),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


@given(steps=STEPS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_as_if_it_had_only_ever_seen_what_is_left(tmp_path_factory, steps):
    """Against a model: which (class, picture) are known and denied, in each state that is there to go back to."""
    folder = tmp_path_factory.mktemp("learners")
    learner = make(folder / "shop")
    states = {0: NOTHING}
    for what, name, other, seed in steps:
        picture, newest = (other, seed), max(states)
        shown, denied = states[newest]
        try:
            if what == "learn":
                learner.learn({name: [draw(*picture)]})
                shown |= {(name, picture)}
            elif what == "correct":
                learner.correct(draw(*picture), name)
                shown, denied = ({entry for entry in own if entry[1] != picture} for own in (shown, denied))
                shown |= {(name, picture)}
            elif what == "deny":
                learner.correct(draw(*picture), denied=name)
                shown, denied = shown - {(name, picture)}, denied | {(name, picture)}
            elif what == "forget picture":
                learner.forget(picture=draw(*picture))
                shown, denied = ({entry for entry in own if entry[1] != picture} for own in (shown, denied))
            elif what == "forget class":
                learner.forget(name=name)
                shown, denied = ({entry for entry in own if entry[0] != name} for own in (shown, denied))
            elif what == "rename":
                learner.rename(name, other)
                shown, denied = (
                    {(other if old == name else old, entry) for old, entry in own} for own in (shown, denied)
                )
            else:
                learner.undo()
                del states[newest]
                if newest == 2:  # nothing had been learned before the first state, so that is always there
                    states[0] = NOTHING
                continue
        except SparclError:
            continue  # it was refused, so nothing has changed
        denied = {entry for entry in denied if entry[0] in {own for own, _ in shown}}
        before = {} if what.startswith("forget") else {newest: states[newest]}
        states = {**before, newest + 1: (frozenset(shown), frozenset(denied))}
    shown, denied = states[max(states)]
    fresh = make(folder / "fresh")
    for name in {name for name, _ in shown}:
        fresh.learn({name: [draw(*picture) for own, picture in shown if own == name]})
    for name, picture in denied:
        fresh.correct(draw(*picture), denied=name)
        if (name, picture) in shown:
            fresh.learn({name: [draw(*picture)]})
    assert content_of(learner)[1:] == content_of(fresh)[1:]
    assert content_of(learner)[0] == content_of(fresh)[0]


def test_nothing_of_a_forgotten_picture_is_left_in_any_file(tmp_path):
    learner = taught(tmp_path / "shop", {"apples": drawn("apples", 3), "pears": drawn("pears", 3)}, undo_steps=3)
    learner.learn({"plums": drawn("plums", 2)})
    kept = learner.state().kept
    secret = draw("apples", 1)
    place = next(p for p in range(len(kept)) if kept.name_of(p) == "apples")
    traces = [kept.jpegs[place], kept.features[place].tobytes()]
    files = [file for file in (tmp_path / "shop").rglob("*") if file.is_file()]
    assert all(any(trace in file.read_bytes() for file in files) for trace in traces)
    for seed in range(3):
        learner.forget(picture=draw("apples", seed))
    files = [file.read_bytes() for file in (tmp_path / "shop").rglob("*") if file.is_file()]
    assert not any(trace in content for trace in traces for content in files)
    assert "apples" not in learner.state().about.classes
    with pytest.raises(SparclError, match="does not know this picture"):
        learner.forget(picture=secret)
    with pytest.raises(SparclError, match="cannot go back"):
        learner.undo()


def test_a_corrected_picture_is_known_by_its_right_name(tmp_path):
    learner = taught(tmp_path / "shop", {"apples": drawn("apples", 5), "pears": drawn("pears", 5)})
    odd = draw("lemons", 0)
    taken_for = learner.predict([odd], always=True)[0].name
    assert "is not" in learner.correct(odd, denied=taken_for)
    assert learner.predict([odd], always=True)[0].name != taken_for
    learner.correct(odd, "lemons")
    assert learner.predict([odd], always=True)[0].name == "lemons"
    assert sum(entry["kept"] for entry in learner.status()["classes"]) == 11


def test_what_cannot_be_is_said_in_one_line(tmp_path):
    learner = taught(tmp_path / "shop", {"apples": drawn("apples", 2)})
    for call, message in (
        (lambda: learner.learn({}), "nothing to learn"),
        (lambda: learner.learn({"unknown": drawn("apples", 1)}), "another name"),
        (lambda: learner.learn({"apples": drawn("apples", 1)}, epochs=3), "without epochs"),
        (lambda: learner.learn({"apples": drawn("apples", 1)}, minutes=0), "no time to learn in"),
        (lambda: learner.correct(draw("apples", 0)), "Say what the picture shows"),
        (lambda: learner.correct(draw("apples", 0), denied="plums"), "knows no class 'plums'. It knows: apples"),
        (lambda: learner.forget(), "Say what to forget"),
        (lambda: learner.forget(name="plums"), "knows no class"),
        (lambda: learner.rename("plums", "damsons"), "knows no class"),
        (lambda: make(tmp_path / "other", width=8), "width is a setting of learners that learn from scratch"),
        (lambda: make(tmp_path / "other", backbone="mobilnet_v2"), "mobilnet_v2"),
    ):
        with pytest.raises(SparclError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
    assert not (tmp_path / "other").exists()


def test_other_weights_of_the_same_name_are_refused(tmp_path):
    learner = taught(tmp_path / "shop", {"apples": drawn("apples", 2), "pears": drawn("pears", 2)})
    number = learner.states.newest()
    with learner.states.open(number) as sealed:
        tensors, state = dict(sealed), sealed.state
    learner.states.commit(number, tensors, {**state, "digest": "0" * 64}, 2)
    for call in (lambda: Learner.open(tmp_path / "shop").predict([draw("apples", 0)]), lambda: learner.status()):
        with pytest.raises(SparclError, match="other weights"):
            call()


def test_one_picture_is_known_again(tmp_path):
    learner = taught(tmp_path / "shop", {"apples": drawn("apples", 1), "pears": drawn("pears", 1)})
    assert [answer.name for answer in learner.predict([draw("apples", 0), draw("pears", 0)])] == ["apples", "pears"]
    assert learner.status()["accuracy"] is None


def test_a_set_that_contradicts_itself_is_refused():
    empty = Kept.nothing(4)
    assert Kept.from_tensors(empty.to_tensors(), (), 4).classes == ()
    for changes in (
        {"kept.labels": np.zeros(1, np.int64)},
        {"kept.features": np.zeros((0, 5), np.int16)},
        {"kept.jpegs": np.zeros(3, np.uint8)},
    ):
        with pytest.raises(ValueError):
            Kept.from_tensors({**empty.to_tensors(), **changes}, (), 4)


def test_few_pictures_are_warned_about(tmp_path):
    learner = make(tmp_path / "shop")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        learner.learn({"apples": drawn("apples", 2)})
    assert any("fewer than 5 pictures of apples" in str(warning.message) for warning in found)
