"""What our loop costs over the same training step written by hand in torch.

    python -m benchmarks.step_overhead [--width 20] [--repeats 25]

Both sides train DER++ on the same synthetic 32x32 images with the same batch sizes, in channels-last order, including
augmentation (by hand: with torch operations on the whole batch), replay, the update, and adding to the buffer. They
take turns, each in a process of its own. The claim: a ratio of at most 1.03.
"""

import contextlib

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.publish import parsed, parser, publish
from sparcl.bench.contender import Contender, Side, start
from sparcl.bench.dense import module_of
from sparcl.bench.tables import milliseconds, rounds
from sparcl.bench.timing import Step, Times, interleaved
from sparcl.bench.watched import DEFAULT_LIMITS
from sparcl.bench.workload import Workload
from sparcl.data import Augmentation, Samples, Task
from sparcl.graph import build_model
from sparcl.learning.loop import Loop
from sparcl.learning.settings import resolve
from sparcl.network.backend import available_cores

CLASSES, IMAGES, BATCH, BUFFER = 10, 4096, 32, 500
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2615)


class ByHand:
    """DER++ as one would write it directly in torch."""

    def __init__(self, width: int, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = torch.from_numpy(images), torch.from_numpy(labels)
        graph = Workload(width=width, classes=CLASSES).graph()
        self.model = module_of(graph).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.03)
        self.mean, self.std = (torch.tensor(v).view(1, 3, 1, 1) * 255 for v in (MEAN, STD))
        self.buffer_images = torch.zeros(BUFFER, 3, 32, 32, dtype=torch.uint8)
        self.buffer_labels, self.buffer_logits = torch.zeros(BUFFER, dtype=torch.long), torch.zeros(BUFFER, CLASSES)
        self.seen = 0

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """One crop and one flip for the whole batch: cheaper than ours, which draws for each image."""
        dy, dx = torch.randint(0, 9, (2,)).tolist()
        x = F.pad(images, (4, 4, 4, 4))[:, :, dy : dy + 32, dx : dx + 32]
        x = x.flip(3) if torch.rand(()) < 0.5 else x
        return ((x.float() - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def replay(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        chosen = torch.randperm(min(self.seen, BUFFER))[:BATCH]
        return self.prepare(self.buffer_images[chosen]), self.buffer_labels[chosen], self.buffer_logits[chosen]

    def step(self) -> None:
        chosen = torch.randint(0, IMAGES, (BATCH,))
        originals, labels = self.images[chosen], self.labels[chosen]
        self.optimizer.zero_grad()
        logits = self.model(self.prepare(originals))
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        if self.seen:
            images, _, stored = self.replay()
            (0.2 * F.mse_loss(self.model(images), stored)).backward()
            images, replayed, _ = self.replay()
            (0.5 * F.cross_entropy(self.model(images), replayed)).backward()
        self.optimizer.step()
        loss.item()
        for sample in range(BATCH):
            slot = self.seen if self.seen < BUFFER else int(torch.randint(0, self.seen + 1, ()))
            self.seen += 1
            if slot < BUFFER:
                self.buffer_images[slot] = originals[sample]
                self.buffer_labels[slot], self.buffer_logits[slot] = labels[sample], logits[sample].detach()


def samples() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (IMAGES, 3, 32, 32), np.uint8)
    return images, generator.integers(0, CLASSES, IMAGES)


def by_hand(width: int, threads: int) -> Step:
    torch.set_num_threads(threads)
    return ByHand(width, *samples()).step


def our_loop(width: int, threads: int) -> Step:
    images, labels = samples()
    chosen = Samples(images, np.arange(IMAGES), labels)
    task = Task(0, range(CLASSES), chosen, chosen, None)
    settings = resolve(
        {
            "dataset": "cifar10",
            "method": "derpp",
            "width": width,
            "buffer_size": BUFFER,
            "threads": threads,
            "backend": "torch",  # as by hand: what differs is the loop
        }
    )
    graph = build_model(settings.model, (3, 32, 32), CLASSES, width)
    loop = Loop(settings, graph, Augmentation(4, True, MEAN, STD), (task,))
    loop.begin_run()
    loop.begin_task(task)

    def step() -> None:
        if loop.epoch_is_over():
            loop.position.step = 0  # the epoch begins again
        loop.train_step(task)

    return step


def measure(width: int, repeats: int) -> dict[str, Times]:
    threads, started = available_cores(), dict[str, Contender]()
    with contextlib.ExitStack() as processes:
        for name, make in (("by hand", by_hand), ("sparcl", our_loop)):
            side = Side(name, name, make, {"width": width, "threads": threads}, must_work=True)
            started |= start(side, threads, DEFAULT_LIMITS, processes, print)
        return interleaved({name: contender.turn for name, contender in started.items()}, repeats, print)


def main() -> None:
    arguments = parser(__doc__, "step-overhead")
    arguments.add_argument("--width", type=int, nargs="*", default=[20, 64])
    arguments.add_argument("--repeats", type=int, default=25)
    options = parsed(arguments)
    rows = []
    for width in options.width:
        measured = measure(width, options.repeats)
        ours, theirs = measured["sparcl"], measured["by hand"]
        times = (milliseconds(side.median_ms, side.spread_ms) for side in (ours, theirs))
        rows.append((str(width), *times, f"{ours.median_ms / theirs.median_ms:.3f}"))
    publish(options, ("width", "our loop ms", "by hand ms", "ratio"), rows, rounds(options.repeats))


if __name__ == "__main__":
    main()
