"""Latents: what the frozen lower part of a backbone makes of views of a picture, in 8 bits.

    value = low + step * number           low and step: of each channel of each view

A picture's first two views are itself and its mirror image; the others are parts of it, perhaps mirrored, which depend
on nothing but the picture and the seed. So latents need not be kept: they are the same whenever they are made.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcl import _engine
from sparcl.backbone import Backbone
from sparcl.data import Augmentation
from sparcl.instant.upper_part import cut_of, lower_graph
from sparcl.network.folding import engine_nodes, fold

LEVELS = 255
VIEWS_IN_ALL = 4000  # that is about 15 seconds on two cores, and 16 MB
MIN_VIEWS, MAX_VIEWS = 2, 8  # of a picture
MIN_PART = 0.5  # of a picture's pixels


def views_for(pictures: int) -> int:
    """How many views each of so many pictures has: with few of them there is time for more."""
    return max(MIN_VIEWS, min(MAX_VIEWS, VIEWS_IN_ALL // max(1, pictures)))


def views_of(image: NDArray[np.uint8], digest: int, seed: int, count: int) -> NDArray[np.uint8]:
    """Views [count, 3, size, size] of one picture [3, size, size]."""
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, int(digest)])))
    views = [image, image[:, :, ::-1]][:count]
    while len(views) < count:
        views.append(_part(image, generator))
    return np.ascontiguousarray(np.stack(views))  # as decoded, a picture has its channels last


def _part(image: NDArray[np.uint8], generator: np.random.Generator) -> NDArray[np.uint8]:
    size = image.shape[1]
    side = size * generator.uniform(MIN_PART, 1.0) ** 0.5
    left, top = generator.uniform(0, size - side, 2)
    whole = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    part = whole.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    pixels = np.asarray(part).transpose(2, 0, 1)
    return pixels[:, :, ::-1] if generator.random() < 0.5 else pixels


@dataclass(frozen=True)
class Latents:
    numbers: NDArray[np.uint8]  # [pictures, views, channels, height, width]
    low: NDArray[np.float32]  # [pictures, views, channels]
    step: NDArray[np.float32]

    def restored(self, pictures: NDArray[np.int64], views: NDArray[np.int64] | int) -> NDArray[np.float32]:
        numbers: NDArray[np.float32] = self.numbers[pictures, views].astype(np.float32)
        numbers *= self.step[pictures, views][..., None, None]
        numbers += self.low[pictures, views][..., None, None]
        return numbers


@dataclass(frozen=True)
class LatentViews(Augmentation):
    """What a training loop asks for pictures, answered with latents: of each one a view at random."""

    latents: Latents

    @staticmethod
    def of(latents: Latents) -> "LatentViews":
        return LatentViews(0, False, (), (), latents)

    def train(
        self, images: NDArray[np.uint8], positions: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.float32]:
        views = generator.integers(0, self.latents.numbers.shape[1], size=len(positions))
        return self.latents.restored(positions, views)

    def test(self, images: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.latents.restored(positions, 0)


class LatentExtractor:
    def __init__(self, backbone: Backbone, size: int) -> None:
        graph = backbone.graph(size)
        self.shape = graph.nodes[cut_of(graph)].shape
        self._model = _engine.Model.from_nodes(engine_nodes(fold(lower_graph(graph), backbone.parameters(size))))
        self._normalise = Augmentation(0, False, backbone.mean, backbone.std)

    def maps(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Latents of pictures [n, 3, size, size] as they are computed."""
        found = np.empty((len(images), self._model.outputs), np.float32)
        self._model.predict(self._normalise.test(images, np.arange(len(images))), found, _engine.threads())
        return found.reshape(len(images), *self.shape)

    def of_pictures(
        self,
        pictures: Iterable[NDArray[np.uint8]],
        digests: NDArray[np.uint64],
        seed: int,
        done: Callable[[int], None] = lambda _: None,
    ) -> Latents:
        """`done` is told after each picture how many there are."""
        count, views = len(digests), views_for(len(digests))
        numbers = np.empty((count, views, *self.shape), np.uint8)
        low, step = np.empty((2, count, views, self.shape[0]), np.float32)
        for place, (picture, digest) in enumerate(zip(pictures, digests, strict=True)):
            maps = self.maps(views_of(picture, int(digest), seed, views))
            numbers[place], low[place], step[place] = in_eight_bits(maps)
            done(place + 1)
        return Latents(numbers, low, step)


def in_eight_bits(
    maps: NDArray[np.float32],
) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32]]:
    """Numbers, low and step of maps [n, channels, height, width]."""
    low = maps.min(axis=(2, 3))
    step = (maps.max(axis=(2, 3)) - low) / np.float32(LEVELS)
    scale = np.where(step > 0, step, np.float32(1.0))
    return np.rint((maps - low[..., None, None]) / scale[..., None, None]).astype(np.uint8), low, step
