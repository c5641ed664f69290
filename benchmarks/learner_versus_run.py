"""A learner that is taught two classes at a time from folders, against `sparcl run` with the same settings.

    SPARCL_FOLDERS=~/cifar10 python -m benchmarks.learner_versus_run
    SPARCL_FOLDERS=~/cifar10 python -m benchmarks.learner_versus_run --images 100 --epochs 1 --tasks 2  # short

SPARCL_FOLDERS names a folder with train/CLASS/*.jpg and test/CLASS/*.jpg. Both sides are command lines. With room for
all classes from the start the learner must have the same accuracy, and it has the same bits; with outputs that grow it
is another training, and its accuracy is shown beside.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.commands import sparcl
from benchmarks.publish import parsed, parser, publish
from sparcl.data import load_stream


def first_pictures(source: Path, target: Path, images: int, classes: list[str]) -> None:
    """A folder with the first pictures of each class, as links to the same files where that is possible."""
    for split in ("train", "test"):
        for name in classes:
            (target / split / name).mkdir(parents=True)
            for picture in sorted((source / split / name).iterdir())[:images]:
                place = target / split / name / picture.name
                try:
                    place.hardlink_to(picture)
                except OSError:
                    shutil.copy(picture, place)


def accuracies(learner: Path, folder: Path, tasks: list[list[str]]) -> list[float]:
    """Percent of the test pictures of each task that the learner names rightly."""
    found = []
    for task in tasks:
        lines = sparcl("predict", learner, *(folder / "test" / name for name in task), "--json").splitlines()
        answers = [json.loads(line) for line in lines]
        found.append(100 * sum(Path(one["picture"]).parts[-2] == one["class"] for one in answers) / len(answers))
    return found


def main() -> None:
    arguments = parser(__doc__, "learner-versus-run")
    arguments.add_argument("--images", type=int, default=2500, help="training (and test) pictures of each class")
    arguments.add_argument("--tasks", type=int, default=5)
    arguments.add_argument("--epochs", type=int, default=5)
    arguments.add_argument("--width", type=int, default=20)
    arguments.add_argument("--size", type=int, default=32)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--threads", type=int, default=0, help="0: all cores")
    options = parsed(arguments)
    source = os.environ.get("SPARCL_FOLDERS")
    if not source:
        sys.exit("Set SPARCL_FOLDERS to a folder with train/CLASS/ and test/CLASS/.")
    classes = sorted(path.name for path in (Path(source) / "train").iterdir())[: 2 * options.tasks]
    tasks = [classes[start : start + 2] for start in range(0, len(classes), 2)]
    values = {
        "epochs": options.epochs,
        "width": options.width,
        "seed": options.seed,
        "threads": options.threads,
        "sparsifier.stage_epochs": 1,
        "method.learning_rate": 0.1,
        "method.beta": 1.0,
        "method.one_pass": "true",
        "tuning_seconds": 0,  # a learner does not tune
    }
    settings = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["SPARCL_CACHE"] = str(Path(temporary) / "cache")
        folder = Path(temporary) / "pictures"
        first_pictures(Path(source), folder, options.images, classes)
        data = ["--set", f"data.root={folder}", "--set", f"data.image_size={options.size}"]
        ran = sparcl("run", "folder/sparcl-derpp-90", *settings, *data, "--out", Path(temporary) / "run", "--json")
        rows = {"sparcl run": json.loads(ran)["result"]["class_il"]["rows"][-1]}
        scale = load_stream("folder", root=folder, image_size=options.size).augmentation
        own = ["--set", f"pictures.mean={list(scale.mean)}", "--set", f"pictures.std={list(scale.std)}"]
        for name, reserved in (("learner, room for all classes", len(classes)), ("learner, growing", 0)):
            directory = Path(temporary) / f"learner{reserved}"
            shape = ["--backbone", "none", "--image-size", options.size, "--classes", reserved, "--held-out", 0]
            sparcl("new", directory, *shape, *settings, *own)
            for task in tasks:
                print(sparcl("learn", directory, *(folder / "train" / one for one in task)), end="", flush=True)
            rows[name] = accuracies(directory, folder, tasks)
    means = {name: sum(row) / len(row) for name, row in rows.items()}
    table = [
        (name, *(f"{value:.1f}" for value in row), f"{means[name]:.2f}", f"{means[name] / means['sparcl run']:.3f}")
        for name, row in rows.items()
    ]
    protocol = (
        f"{len(classes)} classes, {options.images} pictures of each, {options.epochs} epochs, width {options.width}, "
        f"sparsity 0.9, seed {options.seed}, {options.threads or 'all'} threads; "
        "Class-IL accuracy in percent after all tasks."
    )
    headings = ("side", *(" ".join(task) for task in tasks), "mean", "ratio")
    publish(options, headings, table, protocol, options.threads)


if __name__ == "__main__":
    main()
