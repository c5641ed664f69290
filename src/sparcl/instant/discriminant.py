"""A linear discriminant in closed form: the mean of each class, and one covariance for all, shrunk.

    covariance   C = (1 - k) S + k mean(diag S) I      S: of what differs within classes, k: how much it is shrunk
    log odds     x'Am - m'Am/2                         A: the inverse of C, m: the mean of a class

Leaving one picture out changes S by a term of rank one, and one mean. So what the others would have said about it is in
closed form too, and a learner of five pictures a class can be honest about itself.

The same pictures in the same order give the same numbers, bit for bit; callers give them in an order that does not
depend on when they came.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Pictures for each feature that the belief "all features vary alike, each for itself" is worth. With few pictures the
#: discriminant is that of the nearest mean; with many it follows what was seen.
PRIOR = 2.5


@dataclass(frozen=True)
class _Inverse:
    """Of spread * I + part * R'R, as (I - R'GR) / spread, which takes little while pictures are fewer than features; or
    as a whole matrix."""

    spread: float
    part: float
    residuals: Real | None = None
    inner: Real | None = None
    whole: Real | None = None

    @staticmethod
    def of(residuals: Real, spread: float, part: float) -> "_Inverse":
        count, width = residuals.shape
        if part <= 0:
            return _Inverse(spread, 0.0)
        if count < width:
            gram = residuals @ residuals.T
            gram[np.diag_indices(count)] += spread / part
            return _Inverse(spread, part, residuals, np.linalg.inv(gram).astype(np.float64))
        covariance = residuals.T @ residuals
        covariance *= part
        covariance[np.diag_indices(width)] += spread
        return _Inverse(spread, part, whole=np.linalg.inv(covariance).astype(np.float64))

    def times(self, rows: Real) -> Real:
        if self.whole is not None:
            return rows @ self.whole
        if self.residuals is None or self.inner is None:
            return rows / self.spread
        return (rows - (rows @ self.residuals.T @ self.inner) @ self.residuals) / self.spread


@dataclass(frozen=True)
class Discriminant:
    means: Real  # [classes, features]
    weight: Real  # [classes, features]: its inner products with a picture, and
    bias: Real  # [classes], are the log odds
    shrinkage: float
    inverse: _Inverse

    @staticmethod
    def of(features: Real, labels: Labels, classes: int) -> "Discriminant":
        """`labels` from 0 to classes - 1, each of them at least once."""
        means = np.stack([features[labels == label].mean(axis=0) for label in range(classes)])
        residuals = features - means[labels]
        freedom, width = len(features) - classes, features.shape[1]
        varied = float((residuals * residuals).sum())
        if freedom == 0 or varied <= 0:
            shrinkage, inverse = 1.0, _Inverse(_between(means), 0.0)
        else:
            shrinkage = PRIOR * width / (PRIOR * width + freedom)
            inverse = _Inverse.of(residuals, shrinkage * varied / (freedom * width), (1 - shrinkage) / freedom)
        weight = inverse.times(means)
        return Discriminant(means, weight, -0.5 * (weight * means).sum(axis=1), shrinkage, inverse)

    def log_odds(self, features: Real) -> Real:
        return np.asarray(features @ self.weight.T + self.bias)


def leave_one_out(found: Discriminant, features: Real, labels: Labels) -> Real:
    """The log odds [pictures, classes] of each picture, without it. Shrinkage and average variance are those of all.

    The only picture of a class is not left out.
    """
    rows, counts = np.arange(len(features)), np.bincount(labels).astype(np.float64)[labels]
    alone = counts < 2
    grown = np.where(alone, 1.0, counts / np.maximum(counts - 1, 1))  # how much farther from its own mean it will be
    inner = features @ found.weight.T  # x'Am
    square = (found.inverse.times(features) * features).sum(axis=1)  # x'Ax
    distance = square[:, None] - 2 * (inner + found.bias)  # (x - m)'A(x - m)
    # With u = x - its own mean, what goes from the covariance is a multiple of uu', and from A one of -Auu'A.
    away = distance[rows, labels]  # u'Au
    part = np.where(alone, 0.0, found.inverse.part * grown)
    change = part / np.maximum(1 - part * away, 1e-12)
    u_x = square - inner[rows, labels]  # u'Ax
    u_m = inner - (found.weight @ found.means.T)[labels]  # u'Am
    without = distance + change[:, None] * (u_x[:, None] - u_m) ** 2
    without[rows, labels] = grown**2 * (away + change * away**2)
    return np.asarray((square + change * u_x**2)[:, None] - without) / 2


def _between(means: Real) -> float:
    """A scale where nothing is known of how pictures of a class differ: how classes differ, if there are several."""
    varied = float(means.var(axis=0).mean())
    return varied if varied > 0 else 1.0
