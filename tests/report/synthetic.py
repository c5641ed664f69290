"""Run directories with invented numbers, as large as wanted: to see whether a page stays readable.

python tests/report/synthetic.py DIRECTORY [TASKS] [CLASSES] [EPOCHS]
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from sparcl.checked import plain
from sparcl.learning import settings
from sparcl.metrics import AccuracyMatrix

LAYERS = [f"stage{s}.block{b}.conv{c}.weight" for s in range(1, 5) for b in (1, 2) for c in (1, 2)]


def write_run(
    path: Path, tasks: int = 20, classes: int = 200, epochs: int = 50, preset: str = "tiny_imagenet/sparcl-derpp-90"
) -> None:
    generator = np.random.default_rng(0)
    path.mkdir(parents=True)
    changes = [f"epochs={epochs}", f"data.classes_per_task={classes // tasks}"]
    chosen = settings.resolve(settings.with_changes(settings.from_preset(preset), changes))
    names = [f"n{generator.integers(10**7, 10**8)} {word}" for word in _words(generator, classes)]
    matrices = {kind: AccuracyMatrix(tasks) for kind in ("class_il", "task_il")}
    events: list[dict[str, object]] = [{"event": "untrained", "class_il": [0.5] * tasks, "task_il": [10.0] * tasks}]
    for task in range(tasks):
        for epoch in range(epochs):
            left = 1 - 0.3 * min(4, epoch // 5) / 4
            events.append(
                {"event": "epoch", "task": task, "epoch": epoch, "steps": 100, "samples": int(5000 * left)}
                | {"loss": float(3 * np.exp(-epoch / 9) + 0.4 * generator.random())}
                | {"train_accuracy": float(95 - 90 * np.exp(-epoch / 5))}
                | {"density": 0.11 if task and epoch < 5 else 0.1, "gradient_density": 0.08}
            )
            if epoch % 5 == 4:
                layers = {
                    name: {"active": 1000, "density": 0.1, "removed": int(generator.integers(20, 80)), "grown": 50}
                    for name in LAYERS
                }
                events.append({"event": "sparsity", "task": task, "epoch": epoch, "layers": layers})
        for kind, best in (("class_il", 80.0), ("task_il", 92.0)):
            row = best * np.exp(-(task - np.arange(task + 1)) / 12) - 6 * generator.random(task + 1)
            matrices[kind].rows[task, : task + 1] = row
        rows = {kind: matrix.rows[task, : task + 1].tolist() for kind, matrix in matrices.items()}
        events.append({"event": "task", "task": task, **rows})
    counts = generator.multinomial(5, np.full(classes, 1 / classes), size=classes)
    counts[np.arange(classes), np.arange(classes)] += generator.integers(5, 45, classes)
    images = generator.integers(0, 256, (2 * classes, 3, 64, 64)).astype(np.uint8)
    flops = {"total": 10**16, "phases": {"forward": 4 * 10**15, "backward_data": 6 * 10**15}}
    stream = {
        "name": chosen.dataset,
        "class_names": names,
        "image_shape": [3, 64, 64],
        "domains": [],
        "tasks": [
            {"classes": [t * classes // tasks, (t + 1) * classes // tasks], "train": 5000, "test": 500}
            for t in range(tasks)
        ],
    }
    result = {kind: {**matrix.summary(), **matrix.to_json()} for kind, matrix in matrices.items()}
    costs = {"seconds": {"train": 86_400.0, "evaluate": 900.0}, "peak_memory_mb": 812.0, "steps": 1000}
    contents = {
        "settings.json": plain(chosen),
        "environment.json": {"sparcl": "0", "processor": "invented"},
        "stream.json": stream,
        "result.json": result,
        "costs.json": costs | {"flops": {"paper": flops, "full": flops}},
        "confusion.json": {"kind": "class_il", "task": tasks - 1, "counts": counts.tolist()},
    }
    for name, content in contents.items():
        (path / name).write_text(json.dumps(content))
    (path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (path / "checkpoints").mkdir()
    tensors = {"method.buffer.images": images, "method.buffer.labels": np.arange(2 * classes) % classes}
    save_file(tensors, path / "checkpoints" / "0000000001.safetensors", metadata={"state": "{}"})


def _words(generator: np.random.Generator, count: int) -> list[str]:
    return ["".join(generator.choice(list("abdegilmnorstu"), generator.integers(4, 12))) for _ in range(count)]


if __name__ == "__main__":
    target, *numbers = sys.argv[1:]
    write_run(Path(target), *map(int, numbers))
