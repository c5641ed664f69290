"""All randomness, from one seed, through named generators.

Each purpose draws from its own generator, so that switching one component on or off never changes another's draws: two
methods with the same seed see the same data order and the same augmentations, and can be compared in pairs.
"""

import zlib
from typing import Any, Literal, get_args

import numpy as np

Purpose = Literal[
    "initialisation",
    "order",
    "augmentation",
    "reservoir",
    "replay",
    "replay_augmentation",
    "masks",
    "importance",
    "removal",
    "exemplars",
]


class Generators:
    def __init__(self, seed: int) -> None:
        self._generators = {
            purpose: np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])))
            for purpose in get_args(Purpose)
        }

    def __getitem__(self, purpose: Purpose) -> np.random.Generator:
        return self._generators[purpose]

    def state(self) -> dict[str, Any]:
        """The exact position of every generator, as plain JSON."""
        return {purpose: generator.bit_generator.state for purpose, generator in self._generators.items()}

    def restore(self, state: dict[str, Any]) -> None:
        for purpose, generator in self._generators.items():
            generator.bit_generator.state = state[purpose]
