"""The page about photos and videos: its code runs, and its numbers are those of the program."""

import re
from pathlib import Path

from sparcl.data import distinct, frames, frames_child

PAGE = (Path(__file__).parents[2] / "docs" / "photos.md").read_text()


def test_the_code_of_the_page_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.strip() == re.search(r"print\(side\)  # (.*)", code)[1]


def test_its_numbers_are_those_of_the_program():
    assert f"at least {distinct.BLURRED:.0%} of the detail" in PAGE
    assert f"at {distinct.THUMBNAIL}x{distinct.THUMBNAIL} pixels" in PAGE and f"by {distinct.SAME:.0f} of 256" in PAGE
    assert f"`--frames` ({frames.MAX_FRAMES})" in PAGE and frames_child.EVERY == 0.1
    assert f"{frames_child.MEMORY >> 30} GB of memory" in PAGE
    for suffix in re.findall(r"`(\.\w+)`", PAGE):
        assert suffix in frames.SUFFIXES
