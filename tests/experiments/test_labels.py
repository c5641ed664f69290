"""Labels of figures cover neither each other nor any mark."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sparcl.experiments import experiment, figures
from sparcl.experiments.experiment import Group
from sparcl.experiments.labels import BESIDE, ON_TOP, Box, place_labels
from sparcl.experiments.outcome import Grid, Heading, Value, of_paper

AREA = Box(62, 60, 478, 301)
DIGITS = Group("digits", "cifar10")


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


def drawn(board):
    """The boxes of circles, bars, and of the texts inside the plot."""
    shapes, texts = [], []
    for mark in board._marks:
        kind = type(mark).__name__
        if kind == "_Circle" and mark.centre[1] > figures.TOP - 20:
            shapes.append(Box.around(mark.centre, mark.radius))
        elif kind == "_Bar":
            shapes.append(Box(*mark.corner, mark.corner[0] + mark.size[0], mark.corner[1] + mark.size[1]))
        elif (
            kind == "_Text"
            and figures.TOP < mark.place[1] < figures.HEIGHT - figures.BOTTOM
            and mark.colour == figures.INK
        ):
            half = 6.5 * len(mark.text) / 2
            middle = mark.place[0] + {"start": half, "middle": 0, "end": -half}[mark.anchor]
            texts.append(Box(middle - half, mark.place[1] - 9, middle + half, mark.place[1] + 3))
    return shapes, texts


def grid_of(chosen, columns):
    """columns: by heading, a number for each row."""
    rows = [
        (row.label, [Value(numbers[place]) for numbers in columns.values()]) for place, row in enumerate(chosen.rows)
    ]
    return Grid("", [Heading("digits", name) for name in columns], rows)


def test_the_labels_of_figure_4_are_apart():
    """Numbers of a real smoke run, in which five circles crowd together."""
    chosen = experiment.load("fig4")
    columns = {
        "Class-IL": [61.18, 53.67, 48.54, 48.59, 36.52, 38.20, 21.06],
        "times faster": [1.0, 15.42, 14.23, 12.82, 16.39, 14.16, 20.99],
        "MB, peak": [54, 53, 52, 54, 53, 53, 53],
    }
    board = figures.draw(chosen, [DIGITS], grid_of(chosen, columns))["digits"]
    shapes, texts = drawn(board)
    assert len(shapes) == len(texts) == 7
    assert apart(texts) and not any(text.overlap(shape) for text in texts for shape in shapes)


def test_no_bar_of_figure_5_hides_a_number():
    chosen = experiment.load("fig5")
    columns = {"ms": [0.138, 0.0107, 0.00922, 0.00861], of_paper("ms", DIGITS): [18.53, 14.01, 8.3, 5.85]}
    board = figures.draw(chosen, [DIGITS], grid_of(chosen, columns))["digits"]
    shapes, texts = drawn(board)
    assert len(shapes) == len(texts) == 8
    assert apart(texts) and not any(text.overlap(shape) for text in texts for shape in shapes)
