"""DER++ in plain PyTorch as it is usually written: one loss over three forward passes, one backward pass."""

from sparcl.bench.dense import module_of
from sparcl.bench.memory_job import STEPS_OF_THE_SECOND_EPOCH, Job
from sparcl.bench.workload import LEARNING_RATE

ALPHA, BETA = 0.1, 0.5


def train(job: Job) -> None:
    import torch
    import torch.nn.functional as F

    pixels, numbers = job.samples()
    images, labels, batch = torch.from_numpy(pixels), torch.from_numpy(numbers), job.work.batch
    module = module_of(job.work.graph())
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE)
    kept_images = torch.zeros(job.buffer_size, *images.shape[1:], dtype=torch.uint8)
    kept_labels = torch.zeros(job.buffer_size, dtype=torch.int64)
    kept_logits = torch.zeros(job.buffer_size, job.work.classes)
    seen = 0

    def logits_of(chosen: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = module((chosen.float() / 255 - 0.5) / 0.25)
        return logits

    for number in range(job.steps + STEPS_OF_THE_SECOND_EPOCH):
        now = slice(number % job.steps * batch, (number % job.steps + 1) * batch)
        optimizer.zero_grad()
        logits = logits_of(images[now])
        loss = F.cross_entropy(logits, labels[now])
        if seen:
            a, b = (torch.randperm(min(seen, job.buffer_size))[:batch] for _ in range(2))
            loss = loss + ALPHA * F.mse_loss(logits_of(kept_images[a]), kept_logits[a])
            loss = loss + BETA * F.cross_entropy(logits_of(kept_images[b]), kept_labels[b])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        places = (seen + torch.arange(batch)) % job.buffer_size  # a ring takes as much memory as a reservoir
        kept_images[places], kept_labels[places] = images[now], labels[now]
        kept_logits[places] = logits.detach()
        seen += batch
