"""The paper's figures: nothing in them covers a name or a number, and SVG and PNG show the same."""

import io
import itertools
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from sparcl.experiments import experiment, figures
from sparcl.experiments.experiment import Group
from sparcl.experiments.outcome import Grid, Heading, Value, of_paper
from sparcl.figures.labels import Box
from sparcl.figures.marks import Circle, Rectangle, Segment, Text
from sparcl.figures.palette import COLOURS, LIGHT

DIGITS = Group("digits", "cifar10")
SVG = "{http://www.w3.org/2000/svg}"


def apart(boxes):
    return all(not one.overlap(other) for one, other in itertools.combinations(boxes, 2))


def drawn(drawing):
    """The boxes of circles and bars, and of the texts between the axes."""
    shapes, texts = [], []
    axes = drawing.marks.index(next(mark for mark in drawing.marks if mark.look == "baseline"))
    for mark in drawing.marks[axes:]:
        if isinstance(mark, Circle):
            shapes.append(Box.around(mark.centre, mark.radius))
        elif isinstance(mark, Rectangle):
            shapes.append(Box(*mark.corner, mark.corner[0] + mark.size[0], mark.corner[1] + mark.size[1]))
        elif isinstance(mark, Text) and mark.look == "label":
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
    drawing = figures.draw(chosen, [DIGITS], grid_of(chosen, columns))["digits"]
    shapes, texts = drawn(drawing)
    assert len(shapes) == len(texts) == 7
    assert apart(texts) and not any(text.overlap(shape) for text in texts for shape in shapes)


def test_no_bar_of_figure_5_hides_a_number():
    chosen = experiment.load("fig5")
    columns = {"ms": [0.138, 0.0107, 0.00922, 0.00861], of_paper("ms", DIGITS): [18.53, 14.01, 8.3, 5.85]}
    drawing = figures.draw(chosen, [DIGITS], grid_of(chosen, columns))["digits"]
    shapes, texts = drawn(drawing)
    assert len(shapes) == len(texts) == 8
    assert apart(texts) and not any(text.overlap(shape) for text in texts for shape in shapes)


def test_a_file_shows_in_svg_and_in_png_what_was_drawn():
    chosen = experiment.load("fig5")
    columns = {"ms": [16.0, 12.0, 8.0, 4.0], of_paper("ms", DIGITS): [18.53, 14.01, 8.3, 5.85]}
    drawing = figures.draw(chosen, [DIGITS], grid_of(chosen, columns))["digits"]
    bars = [mark for mark in drawing.marks if isinstance(mark, Rectangle)]
    heights = [bar.size[1] for bar in bars]
    assert heights[0] / heights[2] == pytest.approx(16 / 12)  # the axis begins at 0
    root = ElementTree.fromstring(drawing.svg())
    written = [one for one in root.iter(SVG + "rect") if one.get("fill") != "white"]
    assert [float(one.get("height")) for one in written] == pytest.approx(heights, abs=0.01)
    assert [one.get("fill") for one in written] == [COLOURS[f"series-{bar.series}"][LIGHT] for bar in bars]
    pixels = np.asarray(Image.open(io.BytesIO(drawing.png()))) / 255
    magnified = pixels.shape[1] / drawing.width
    for bar, fill in zip(bars, (one.get("fill") for one in written), strict=True):
        x, y = bar.corner[0] + bar.size[0] / 2, bar.corner[1] + bar.size[1] / 2
        colour = np.array([int(fill[place : place + 2], 16) / 255 for place in (1, 3, 5)])
        shown = pixels[int(y * magnified), int(x * magnified)]
        np.testing.assert_allclose(shown, 0.75 * colour + 0.25, atol=0.02)


def test_dense_is_one_in_the_tradeoff_of_figure_1():
    chosen = experiment.load("fig1")
    count = len(chosen.rows)
    columns = {
        "Class-IL": [60.0 - row for row in range(count)],
        "FLOPs": [8e12 / 2**row for row in range(count)],
        of_paper("Class-IL", DIGITS): [70.0 - row for row in range(count)],
        of_paper("FLOPs", DIGITS): [1.6e15 / 4**row for row in range(count)],
    }
    drawing = figures.draw(chosen, [DIGITS], grid_of(chosen, columns))["digits"]
    shapes, texts = drawn(drawing)
    assert len(texts) == count and apart(texts) and not any(text.overlap(shape) for text in texts for shape in shapes)
    circles = [mark for mark in drawing.marks if isinstance(mark, Circle) and mark.radius == 5]
    theirs, ours = ([one.centre for one in circles if one.series == series] for series in (figures.PAPER, figures.HERE))
    assert ours[0][0] == pytest.approx(theirs[0][0])
    steps = [ours[0][0] - ours[1][0], theirs[0][0] - theirs[1][0]]
    assert steps[1] == pytest.approx(2 * steps[0])  # a logarithmic axis: 4 is twice as far as 2


def test_the_curves_of_figure_3_have_whiskers_and_a_level():
    chosen = experiment.load("fig3")
    rows = [(row.label, [Value(50.0 + place, 2.0)]) for place, row in enumerate(chosen.rows)]
    drawing = figures.draw(chosen, [DIGITS], Grid("", [Heading("digits", "Class-IL")], rows))["digits"]
    in_series = [row for row in chosen.rows if row.series]
    whiskers = [mark for mark in drawing.marks if isinstance(mark, Segment) and mark.look == "thin"]
    levels = [mark for mark in drawing.marks if isinstance(mark, Segment) and mark.look == "level"]
    assert len(whiskers) == len(in_series) and len(levels) == len(chosen.rows) - len(in_series)
    assert {mark.series for mark in whiskers} == set(range(len({row.series for row in in_series})))
    lengths = [mark.start[1] - mark.end[1] for mark in whiskers]
    assert lengths == pytest.approx([lengths[0]] * len(lengths)) and lengths[0] > 0
