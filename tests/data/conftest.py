"""Every test has its own cache and its own, empty, data directory."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARCL_DATA", str(tmp_path / "data"))


@pytest.fixture
def picture() -> Callable[..., bytes]:
    """The bytes of a picture file of one colour, or of random pixels if no colour is given."""

    def make(
        size: tuple[int, int] = (40, 30), colour: object = None, kind: str = "PNG", mode: str = "RGB", seed: int = 0
    ) -> bytes:
        if colour is None:
            pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            image = Image.fromarray(pixels).convert(mode)
        else:
            image = Image.new(mode, size, colour)  # type: ignore[arg-type]
        buffer = io.BytesIO()
        image.save(buffer, kind)
        return buffer.getvalue()

    return make


@pytest.fixture
def class_folders(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    """Three classes of ten pictures."""
    root = tmp_path / "photos"
    for label, name in enumerate(("cat", "dog", "emu")):
        (root / name).mkdir(parents=True)
        for number in range(10):
            (root / name / f"{number}.png").write_bytes(picture(seed=100 * label + number))
    return root
