"""Labels of figures cover neither each other nor any mark."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sparcl.figures.labels import BESIDE, ON_TOP, Box, place_labels

AREA = Box(62, 60, 478, 301)


def apart(boxes):
    return all(not one.overlap(other) for one, other in itertools.combinations(boxes, 2))


@given(st.lists(st.tuples(st.floats(80, 460), st.floats(80, 285), st.floats(3, 16)), min_size=1, max_size=8))
def test_wherever_marks_are_their_labels_are_free(drawn):
    marks = [(Box.around((x, y), radius), f"0.9{number}, 54 MB") for number, (x, y, radius) in enumerate(drawn)]
    labels = place_labels(marks, AREA)
    boxes = [label.box for label in labels]
    assert apart(boxes)
    assert not any(box.overlap(mark) for box in boxes for mark, _ in marks)
    assert all(AREA.holds(box) for box in boxes)
    assert labels == place_labels(marks, AREA)


def test_of_two_marks_side_by_side_each_has_the_label_at_its_own_side():
    left, right = Box.around((200, 150), 16), Box.around((204, 150), 16)
    first, second = place_labels([(left, "left"), (right, "right")], AREA)
    assert first.box.right < left.left and second.box.left > right.right


def test_where_nothing_is_free_the_least_is_covered():
    full = Box(62, 60, 478, 301)
    (label,) = place_labels([(Box.around((200, 150), 5), "x")], AREA, BESIDE, [full])
    assert AREA.holds(label.box)


def test_a_number_on_a_low_bar_keeps_clear_of_the_high_one_next_to_it():
    low, high = Box(100, 299, 130, 300), Box(133, 90, 163, 300)
    labels = place_labels([(low, "0.0092"), (high, "18.5")], AREA, ON_TOP)
    assert not labels[0].box.overlap(high)
