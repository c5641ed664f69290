"""Whether a learning session made the classes known before worse, by more than chance.

Held-out pictures that were right before and are wrong now may be chance: a network that errs on a share of all pictures
errs on a few more of these today, on a few less tomorrow. What chance does not explain is said. The share is that of
the pictures that were wrong before, with half a picture of each kind added (Jeffreys), so that a class without any
mistake is not taken for one that cannot make any.
"""

import math

from sparcl.device.judgement import Judgement

CHANCE = 0.05  # the most that a warning for no reason may have
Counts = tuple[int, int]  # right, of all


def worse(before: Judgement, after: Judgement) -> list[str]:
    """The classes that became worse, those that lost most first; none if it may be chance.

    All together are judged, and each by itself: of many classes one looks bad by chance, so more is asked of each.
    """
    names = [name for name in before.held_out if name in after.held_out]
    chances = {name: chance_of(before.held_out[name], after.held_out[name]) for name in names}
    together = chance_of(_total(before, names), _total(after, names)) if names else 1.0
    if together >= CHANCE and min(chances.values(), default=1.0) * len(names) >= CHANCE:
        return []
    lost = {name: before.held_out[name][0] - after.held_out[name][0] for name in names}
    suspects = [name for name in names if chances[name] < CHANCE] or [name for name in names if lost[name] > 0]
    return sorted(suspects, key=lambda name: -lost[name])


def chance_of(before: Counts, after: Counts) -> float:
    """How probable it is that nothing changed, and yet as few of the same pictures are right as `after` says."""
    right, count = before
    mistakes = count - after[0]
    if mistakes <= count - right:
        return 1.0
    share = (count - right + 0.5) / (count + 1)
    return 1.0 - sum(math.exp(_log_probability(number, count, share)) for number in range(mistakes))


def _log_probability(number: int, count: int, share: float) -> float:
    """Of exactly `number` mistakes among `count`, if each is made with probability `share`."""
    ways = math.lgamma(count + 1) - math.lgamma(number + 1) - math.lgamma(count - number + 1)
    return ways + number * math.log(share) + (count - number) * math.log1p(-share)


def _total(judgement: Judgement, names: list[str]) -> Counts:
    right, count = zip(*(judgement.held_out[name] for name in names), strict=True)
    return sum(right), sum(count)
