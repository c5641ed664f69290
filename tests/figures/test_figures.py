"""Drawing: axes that fit, colours that can be read, pictures that hold what they should."""

import base64
import io
import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sparcl.figures import raster
from sparcl.figures.lines import Line, LinePlot
from sparcl.figures.markup import Markup, element
from sparcl.figures.palette import COLOURS, SERIES, text_on
from sparcl.figures.panels import panels
from sparcl.figures.scale import short, thinned, ticks


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_ticks_cover_the_values_at_round_steps(one, other):
    low, high = min(one, other), max(one, other)
    found = ticks(low, high)
    tolerance = 1e-6 * (found[1] - found[0])
    assert found[0] <= low + tolerance and found[-1] >= high - tolerance
    assert 2 <= len(found) <= 9
    steps = np.diff(found)
    assert (steps > 0).all()
    digits = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)
    assert min(abs(digits - round_one) for round_one in (1, 2, 5, 10)) < 1e-3


@given(st.integers(0, 500), st.integers(1, 50))
def test_thinned_labels_are_few_and_even(count, most):
    places = list(thinned(count, most))
    assert len(places) <= most
    assert places[:1] == ([0] if count else [])


def test_numbers_on_axes_are_short():
    assert [short(value) for value in (0, 0.05, 12.5, 100, 20_000, 3_000_000, 3.1e12)] == [
        *("0", "0.05", "12.5", "100", "20k", "3M", "3.1e12"),
    ]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""

    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("side", [0, 1])
def test_text_and_lines_stand_out_from_the_page(side):
    colour = {name: pair[side] for name, pair in COLOURS.items()}
    for background in ("page", "card"):
        assert contrast(colour["ink"], colour[background]) >= 7
        assert contrast(colour["muted"], colour[background]) >= 4.5
        for number in range(SERIES):
            assert contrast(colour[f"series-{number}"], colour[background]) >= 4.5


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", ["heat", "miss"])
def test_numbers_can_be_read_on_every_shade(side, name):
    above, below = ([int(COLOURS[n][side][p : p + 2], 16) for p in (1, 3, 5)] for n in (name, "card"))
    for percent in range(101):
        blend = [round(percent / 100 * a + (1 - percent / 100) * b) for a, b in zip(above, below, strict=True)]
        shade = "#" + "".join(f"{channel:02x}" for channel in blend)
        assert contrast(COLOURS[text_on(name, percent / 100)][side], shade) >= 4.5


def opened(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))


def test_a_picture_of_shades_holds_them():
    shares = np.array([[0, 0.5, 1], [np.nan, 0.25, 2]])
    pixels = np.asarray(opened(raster.heat(shares, shares == 0.25)))
    assert pixels[..., 3].tolist() == [[0, 128, 255], [0, 64, 255]]
    assert tuple(pixels[1, 1, :3]) == raster.MISS and tuple(pixels[0, 2, :3]) == raster.HEAT


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_images_stand_side_by_side(channels):
    images = np.random.default_rng(0).integers(0, 256, (3, channels, 8, 8)).astype(np.uint8)
    pixels = np.asarray(opened(raster.strip(images, 40)))
    assert pixels.shape == (8, 3 * 8 + 2, 4)
    assert np.array_equal(pixels[:, 9:17, 0], images[1, 0])
    assert opened(raster.strip(images, 4)).size == (3 * 4 + 2, 4)


def test_only_markup_is_markup():
    assert element("p", "<b>", Markup("<i>"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;<i></p>'


def test_a_file_of_plots_is_valid_and_leaves_gaps():
    lines = [Line("ours", [0, 1, 2], [1.0, 2.0, 3.0]), Line("dense", [0, 1, 2], [300.0, None, 410.0], series=1)]
    plot = LinePlot("a < b", "x", "ms", lines, x_ticks=[(0, "one"), (1, "two"), (2, "three")])
    root = ElementTree.fromstring(panels([plot] * 3).svg())
    drawn = root.findall(".//{http://www.w3.org/2000/svg}path[@data-name]")  # the legend's have none
    assert len(drawn) == 6
    assert [path.get("d").count("M") for path in drawn[:2]] == [1, 2]  # a gap lifts the pen
    assert json.loads(drawn[1].get("data-y")) == [300.0, 410.0]
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"0", "100", "500", "a < b", "dense", "three", "ms"} <= set(texts)


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_points_lie_where_their_values_say(values):
    """Read back through the axis: two ticks give the scale, every point its value."""
    plot = LinePlot("t", "x", "y", [Line("l", range(len(values)), values)])
    root = ElementTree.fromstring(panels([plot]).svg())
    circles = [
        one for one in root.iter("{http://www.w3.org/2000/svg}circle") if one.get("r") == "3"
    ]  # not the legend's
    dots = [float(dot.get("cy")) for dot in circles]
    known = [value for value in values if value is not None]
    assert len(dots) == len(known)
    if len(set(known)) > 1 and max(known) - min(known) > 1e-3:
        scale = (dots[known.index(max(known))] - dots[known.index(min(known))]) / (max(known) - min(known))
        assert scale < 0  # upwards is larger
        for dot, value in zip(dots, known, strict=True):
            assert dot == pytest.approx(dots[0] + scale * (value - known[0]), abs=0.05)
