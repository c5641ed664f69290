"""What our loop costs over the same training step written by hand in torch.

    python -m benchmarks.step_overhead [--width 20] [--repeats 25]

Both sides train DER++ on the same synthetic 32x32 images with the same batch sizes, in channels-last order, including
augmentation (by hand: with torch operations on the whole batch), replay, the update, and adding to the buffer. They
take turns, each in a process of its own. The claim: a ratio of at most 1.03.
"""

import contextlib

import torch
import torch.nn.functional as F

from benchmarks.publish import parsed, parser, publish
from sparcl.bench.contender import Contender, Side, start
from sparcl.bench.dense import module_of
from sparcl.bench.loop_side import loop_of, random_task, step_of
from sparcl.bench.tables import milliseconds, rounds
from sparcl.bench.timing import Step, Times, interleaved
from sparcl.bench.watched import DEFAULT_LIMITS
from sparcl.bench.workload import Workload
from sparcl.network.backend import available_cores

IMAGES, BATCH, BUFFER = 4096, 32, 500


class ByHand:
    """DER++ as one would write it directly in torch."""

    def __init__(self, work: Workload) -> None:
        images, labels = work.samples(IMAGES)
        self.images, self.labels = torch.from_numpy(images), torch.from_numpy(labels)
        self.model = module_of(work.graph()).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.03)
        self.buffer_images = torch.zeros(BUFFER, *images.shape[1:], dtype=torch.uint8)
        self.buffer_labels = torch.zeros(BUFFER, dtype=torch.long)
        self.buffer_logits = torch.zeros(BUFFER, work.classes)
        self.seen = 0

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """One crop and one flip for the whole batch: cheaper than ours, which draws for each image."""
        dy, dx = torch.randint(0, 9, (2,)).tolist()
        x = F.pad(images, (4, 4, 4, 4))[:, :, dy : dy + 32, dx : dx + 32]
        x = x.flip(3) if torch.rand(()) < 0.5 else x
        return ((x.float() / 255 - 0.5) / 0.25).contiguous(memory_format=torch.channels_last)

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


def by_hand(width: int, threads: int) -> Step:
    torch.set_num_threads(threads)
    return ByHand(Workload(width=width, batch=BATCH)).step


def our_loop(width: int, threads: int) -> Step:
    work = Workload(width=width, batch=BATCH)
    task = random_task(work, IMAGES)
    # On torch, as by hand: what differs is the loop.
    settings = {"method": "derpp", "buffer_size": BUFFER, "threads": threads, "backend": "torch"}
    return step_of(loop_of(work, task, settings), task)


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
