"""What learners with a backbone say about themselves: evaluations, cautions, pictures named by digests."""

import pytest
from drawings import draw, drawn, make

from sparcl import SparclError
from sparcl.instant.cautions import cautions

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_evaluating_counts_unknown_and_what_was_learned(tmp_path):
    learner = make(tmp_path / "shop")
    learner.learn({name: drawn(name, 8) for name in ("apples", "pears")})
    strange = drawn("lemons", 6, 50)
    found = learner.evaluate({"apples": [*drawn("apples", 6, 50), draw("apples", 0)], "lemons": strange})
    said = learner.predict(strange)
    assert found.never_learned_called_unknown == sum(answer.unknown for answer in said)
    known = [answer.familiarity for answer in learner.predict([*drawn("apples", 6, 50), draw("apples", 0)])]
    pairs = [k > answer.familiarity for k in known for answer in said]
    assert found.auroc == pytest.approx(sum(pairs) / len(pairs))
    assert found.learned == 1 and set(found.accuracy_by_class) == {"apples"}


def test_a_class_that_became_worse_is_named_with_what_it_is_taken_for(tmp_path):
    """The new class is apples under another name."""
    learner = make(tmp_path / "shop")
    learner.learn({name: drawn(name, 16) for name in ("apples", "pears")})
    learned = learner.learn({"windfalls": drawn("apples", 16, 40)})
    (caution,) = learned.cautions
    assert caution.startswith("apples is recognised less well") and "now taken for windfalls (" in caution
    assert caution.endswith(f"sparcl undo {learner.directory}")
    learner.undo()
    assert learner.learn({"plums": drawn("plums", 16)}).cautions == ()
    state = learner.state()
    assert cautions(state.history[-1], state, learner.directory) == []


def test_a_picture_can_be_named_by_its_digest(tmp_path):
    learner, other = make(tmp_path / "one"), make(tmp_path / "other")
    for one in (learner, other):
        one.learn({"apples": drawn("apples", 4), "pears": drawn("pears", 4)})
    kept = learner.state().kept
    digest = f"{int(kept.digests[0]):016x}"
    learner.correct(digest, "pears")
    assert int(digest, 16) in set(map(int, learner.state().kept.digests[learner.state().kept.of_class("pears")]))
    assert learner.status()["classes"][0]["kept"] == 3
    learner.forget(picture=digest)
    assert int(digest, 16) not in set(map(int, learner.state().kept.digests))
    for refused in (lambda: learner.correct(digest, "pears"), lambda: learner.forget(picture=digest)):
        with pytest.raises(SparclError, match="know"):
            refused()
