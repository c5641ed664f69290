"""The pictures that a learner keeps: what it knows is a function of this set, and of nothing else.

Every picture has its features (to learn from), a small JPEG (to look at, and to learn deeply from) and its digest (to
be recognised by). They stand in the order of their classes' names and their digests, however they came. What is taken
out is gone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.tensor_files import Tensors

MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying only shuffles numbers of 64 bits
MAX_JPEG = 4 << 20  # bytes of one


@dataclass(frozen=True)
class Photo:
    """One picture that is to be kept."""

    digest: int
    features: NDArray[np.int16]
    jpeg: bytes
    sharpness: float
    contrast: float


@dataclass(frozen=True)
class Kept:
    classes: tuple[str, ...]  # sorted
    digests: NDArray[np.uint64]
    labels: NDArray[np.int64]  # -1 - class: what is known of it is that it is not this class
    features: NDArray[np.int16]  # [pictures, features]
    quality: NDArray[np.float32]  # [pictures, 2]: sharpness and contrast
    jpegs: tuple[bytes, ...]

    @staticmethod
    def nothing(width: int) -> "Kept":
        none = np.zeros(0, np.int64)
        return Kept((), none.astype(np.uint64), none, np.zeros((0, width), np.int16), np.zeros((0, 2), np.float32), ())

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def learned(self) -> NDArray[np.bool_]:
        """Those whose class is known."""
        return np.asarray(self.labels >= 0)

    def name_of(self, place: int) -> str:
        label = int(self.labels[place])
        return self.classes[label if label >= 0 else -1 - label]

    def of_class(self, name: str) -> NDArray[np.bool_]:
        return self.labels == self.classes.index(name) if name in self.classes else np.zeros(len(self), bool)

    def photo(self, place: int) -> Photo:
        sharpness, contrast = map(float, self.quality[place])
        return Photo(int(self.digests[place]), self.features[place], self.jpegs[place], sharpness, contrast)

    # Changing it: every one of these gives a new set.

    def with_photos(self, name: str, photos: Iterable[Photo], denied: bool = False) -> "Kept":
        """More pictures of a class, or pictures of which only is known that they are not of it. Those that are there
        already stay as they are."""
        sign = -1 if denied else 1
        there = {int(digest) for digest in self.digests[self._marked(name, denied)]}
        added: list[Photo] = []
        for photo in photos:
            if photo.digest not in there:
                there.add(photo.digest)
                added.append(photo)
        if not added:
            return self
        names = [(self.name_of(place), 1 if self.labels[place] >= 0 else -1) for place in range(len(self))]
        return _sorted(
            names + [(name, sign)] * len(added),
            np.concatenate([self.digests, np.array([photo.digest for photo in added], np.uint64)]),
            np.concatenate([self.features, np.stack([photo.features for photo in added])]),
            np.concatenate(
                [self.quality, np.array([[photo.sharpness, photo.contrast] for photo in added], np.float32)]
            ),
            (*self.jpegs, *(photo.jpeg for photo in added)),
        )

    def without(self, gone: NDArray[np.bool_]) -> "Kept":
        """A class of which nothing is left is gone too."""
        return self._some(np.flatnonzero(~gone))

    def renamed(self, old: str, new: str) -> "Kept":
        """If there is a class of the new name already, they become one."""
        names = [(self.name_of(place), 1 if self.labels[place] >= 0 else -1) for place in range(len(self))]
        renamed = [(new if name == old else name, sign) for name, sign in names]
        merged = _sorted(renamed, self.digests, self.features, self.quality, self.jpegs)
        return merged._some(merged._first_of_each())

    def thinned(self, most: int) -> "Kept":
        """At most so many of each class. Their content decides which, so that it does not matter when they came; not by
        the digest itself, which decides already which of them are held out from deep learning."""
        chosen, mixed = [], self.digests * MIXER
        for mark in np.unique(self.labels):
            own = np.flatnonzero(self.labels == mark)
            chosen.append(own[np.argsort(mixed[own], kind="stable")[:most]])
        return self if len(self) == sum(map(len, chosen)) else self._some(np.sort(np.concatenate(chosen)))

    def _marked(self, name: str, denied: bool) -> NDArray[np.bool_]:
        if name not in self.classes:
            return np.zeros(len(self), bool)
        label = self.classes.index(name)
        return np.asarray(self.labels == (-1 - label if denied else label))

    def _first_of_each(self) -> NDArray[np.int64]:
        pairs = [(int(label), int(digest)) for label, digest in zip(self.labels, self.digests, strict=True)]
        return np.array([place for place, pair in enumerate(pairs) if place == 0 or pair != pairs[place - 1]], np.int64)

    def _some(self, places: NDArray[np.int64]) -> "Kept":
        names = [(self.name_of(place), 1 if self.labels[place] >= 0 else -1) for place in places]
        jpegs = tuple(self.jpegs[place] for place in places)
        return _sorted(names, self.digests[places], self.features[places], self.quality[places], jpegs)

    # On the disk

    def to_tensors(self) -> Tensors:
        ends = np.cumsum([len(jpeg) for jpeg in self.jpegs], dtype=np.int64)
        return {
            "kept.digests": self.digests,
            "kept.labels": self.labels,
            "kept.features": self.features,
            "kept.quality": self.quality,
            "kept.jpegs": np.frombuffer(b"".join(self.jpegs), np.uint8),
            "kept.jpeg_ends": np.asarray(ends, np.int64),
        }

    @staticmethod
    def from_tensors(tensors: Mapping[str, NDArray[Any]], classes: tuple[str, ...], width: int) -> "Kept":
        """Checked: raises ValueError or KeyError for anything that no learner has written."""
        digests, labels = tensors["kept.digests"], tensors["kept.labels"]
        features, quality = tensors["kept.features"], tensors["kept.quality"]
        ends, content = tensors["kept.jpeg_ends"], tensors["kept.jpegs"]
        count = len(labels)
        expected = (
            (digests, np.uint64, (count,)),
            (labels, np.int64, (count,)),
            (features, np.int16, (count, width)),
            (quality, np.float32, (count, 2)),
            (ends, np.int64, (count,)),
            (content, np.uint8, (int(ends[-1]) if len(ends) else 0,)),
        )
        if any(tensor.dtype != kind or tensor.shape != shape for tensor, kind, shape in expected):
            raise ValueError("the pictures that it keeps do not fit together")
        lengths = np.diff(ends, prepend=0)
        if count and (lengths.min() < 0 or lengths.max() > MAX_JPEG):
            raise ValueError("the pictures that it keeps have impossible lengths")
        if tuple(sorted(set(classes))) != classes:
            raise ValueError("the classes are not in order")
        if not ((labels >= -len(classes)) & (labels < len(classes))).all():
            raise ValueError("the pictures that it keeps have impossible labels")
        if set(np.unique(labels[labels >= 0])) != set(range(len(classes))):
            raise ValueError("there is a class without pictures")
        data = content.tobytes()
        jpegs = tuple(data[end - length : end] for end, length in zip(ends, lengths, strict=True))
        found = Kept(classes, digests, labels, features, quality, jpegs)
        order = _order([(found.name_of(place), int(labels[place] < 0)) for place in range(count)], digests)
        if (order != np.arange(count)).any():
            raise ValueError("the pictures that it keeps are not in order")
        return found


def _order(names: list[tuple[str, int]], digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    keys = [(denied, name, int(digest)) for (name, denied), digest in zip(names, digests, strict=True)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _sorted(
    names: list[tuple[str, int]],
    digests: NDArray[np.uint64],
    features: NDArray[np.int16],
    quality: NDArray[np.float32],
    jpegs: tuple[bytes, ...],
) -> Kept:
    """`names`: the class of each picture, and 1, or -1 where it is denied. A class has at least one picture that is
    not denied; what is denied of others goes."""
    classes = tuple(sorted({name for name, sign in names if sign > 0}))
    place_of = {name: place for place, name in enumerate(classes)}
    stay = [place for place, (name, _) in enumerate(names) if name in place_of]
    order = _order([(names[place][0], int(names[place][1] < 0)) for place in stay], digests[stay])
    chosen = np.array(stay, np.int64)[order] if stay else np.zeros(0, np.int64)
    labels = [place_of[names[p][0]] if names[p][1] > 0 else -1 - place_of[names[p][0]] for p in chosen]
    return Kept(
        classes,
        digests[chosen],
        np.array(labels, np.int64),
        features[chosen],
        quality[chosen],
        tuple(jpegs[place] for place in chosen),
    )


def replaced(kept: Kept, features: NDArray[np.int16]) -> Kept:
    """The same pictures with other features."""
    return replace(kept, features=features)
