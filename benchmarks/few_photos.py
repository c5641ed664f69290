"""How well learners know ten classes of which they have seen a few photos.

    python -m benchmarks.few_photos --tiny tiny-imagenet-200 --cifar cifar10-images
    python -m benchmarks.few_photos ... --kinds instant reference       # only some; what is done stays done

Random draws of ten classes of Tiny-ImageNet, and of CIFAR-10's photos; 5, 20 and 100 photos of each class; all at
once, and two classes at a time. Every learner is made and taught by the commands that its user would type, in processes
of their own, whose seconds and peak memory are measured. Then it is asked about photos that it has not seen, and about
photos of classes that it has never seen.

    scratch     sparcl new --backbone none
    instant     sparcl new
    deep        the same, and then `sparcl deepen --minutes N`
    reference   the same features by PyTorch, the discriminant by NumPy in double precision: independent of our code

Each cell is a file in --cells, so that the work can be interrupted, and continued later.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.predict_cold import measured
from benchmarks.publish import parsed, parser, publish
from sparcl.device.learner import Learner
from sparcl.device.reliability import calibration_error

CLASSES = 10
MOST_PHOTOS = 100  # of each class, to learn from
NEW_PHOTOS = 50  # and to judge by
STRANGE = 10  # classes that are never learned, and so many photos of each
STRANGE_PHOTOS = 20
SPARCL = str(Path(sys.executable).with_name("sparcl"))


@dataclass(frozen=True)
class Draw:
    """Photos of ten classes: to learn from, and to judge by; and photos of others."""

    name: str
    learn: dict[str, list[Path]]
    judge: dict[str, list[Path]]
    strange: list[Path]


def main() -> None:
    arguments = parser(__doc__, "few-photos")
    arguments.add_argument("--tiny", type=Path, required=True, help="Tiny-ImageNet: train/CLASS/images/*.JPEG")
    arguments.add_argument("--cifar", type=Path, required=True, help="CIFAR-10 as photos: train/CLASS/*, test/CLASS/*")
    arguments.add_argument("--draws", type=int, default=5)
    arguments.add_argument("--photos", type=int, nargs="+", default=[5, 20, 100])
    arguments.add_argument("--kinds", nargs="+", default=["scratch", "instant", "deep", "reference"])
    arguments.add_argument("--sessions", nargs="+", default=["at once", "two at a time"])
    arguments.add_argument("--minutes", type=float, default=3, help="of deep learning in each session")
    arguments.add_argument("--cells", type=Path, default=Path("few-photos"))
    options = parsed(arguments)
    options.cells.mkdir(parents=True, exist_ok=True)
    for number in range(options.draws):
        for draw in (tiny_draw(options.tiny, number), cifar_draw(options.cifar, options.tiny, number)):
            for photos in options.photos:
                for kind in options.kinds:
                    for session in options.sessions if kind != "reference" else ["at once"]:
                        cell(options, draw, photos, kind, session)
    show(options)


def tiny_draw(root: Path, number: int) -> Draw:
    generator = np.random.default_rng(number)
    names = generator.permutation(sorted(folder.name for folder in (root / "train").iterdir()))
    own, others = names[:CLASSES], names[CLASSES : CLASSES + STRANGE]
    files = {
        str(name): list(generator.permutation(sorted((root / "train" / name / "images").iterdir()))) for name in own
    }
    strange = [
        file for name in others for file in sorted((root / "train" / name / "images").iterdir())[:STRANGE_PHOTOS]
    ]
    learn = {name: found[:MOST_PHOTOS] for name, found in files.items()}
    judge = {name: found[MOST_PHOTOS:][:NEW_PHOTOS] for name, found in files.items()}
    return Draw(f"Tiny-ImageNet {number}", learn, judge, strange)


def cifar_draw(root: Path, tiny: Path, number: int) -> Draw:
    """Its classes are only ten, so what is strange comes from Tiny-ImageNet."""
    generator = np.random.default_rng(1000 + number)
    names = sorted(folder.name for folder in (root / "train").iterdir())
    learn = {
        name: list(generator.permutation(sorted((root / "train" / name).iterdir())))[:MOST_PHOTOS] for name in names
    }
    judge = {name: list(generator.permutation(sorted((root / "test" / name).iterdir())))[:NEW_PHOTOS] for name in names}
    return Draw(f"CIFAR-10 {number}", learn, judge, tiny_draw(tiny, number).strange)


def cell(options: argparse.Namespace, draw: Draw, photos: int, kind: str, session: str) -> None:
    path = options.cells / f"{draw.name}, {photos}, {kind}, {session}.json".replace(" ", "-")
    if path.exists():
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = (
            by_reference(draw, photos, folder)
            if kind == "reference"
            else by_learner(draw, photos, folder, kind, session, options.minutes)
        )
    found.update(draw=draw.name, photos=photos, kind=kind, session=session)
    path.write_text(json.dumps(found))
    print(path.stem, {name: round(value, 3) for name, value in found.items() if isinstance(value, float)}, flush=True)


def by_learner(draw: Draw, photos: int, folder: Path, kind: str, session: str, minutes: float) -> dict[str, Any]:
    for name, files in draw.learn.items():
        (folder / "photos" / name).mkdir(parents=True)
        for file in files[:photos]:
            shutil.copy(file, folder / "photos" / name / file.name)
    shop, spent = folder / "shop", [(0.0, 0.0)]
    new = [SPARCL, "new", str(shop), *(["--backbone", "none"] if kind == "scratch" else [])]
    measured(new)
    names = sorted(draw.learn)
    portions = [names] if session == "at once" else [names[at : at + 2] for at in range(0, len(names), 2)]
    for portion in portions:
        spent.append(measured([SPARCL, "learn", str(shop), "-q", *(str(folder / "photos" / name) for name in portion)]))
        if kind == "deep":
            spent.append(measured([SPARCL, "deepen", str(shop), "-q", "--minutes", str(minutes)]))
    seconds, megabytes = sum(one for one, _ in spent), max(one for _, one in spent)
    return {"seconds": seconds, "megabytes": megabytes, **judged(Learner.open(shop), draw)}


def judged(learner: Learner, draw: Draw) -> dict[str, Any]:
    """Accuracy, calibration, and how well what was never learned is told from what was."""
    right, sure, unknown, known_scores, calls = [], [], [], [], []
    for name, files in draw.judge.items():
        for answer in learner.predict([str(file) for file in files]):
            right.append(answer.classes[0] == name)
            sure.append(answer.confidences[0])
            unknown.append(answer.unknown)
            known_scores.append(answer.familiarity)
            calls.append(answer.milliseconds)
    found = {"accuracy": 100 * statistics.mean(right), "milliseconds": statistics.median(calls)}
    found["calibration_error"] = 100 * calibration_error(np.array(sure), np.array(right))
    if known_scores[0] is not None:
        strange = learner.predict([str(file) for file in draw.strange])
        found["known_called_unknown"] = 100 * statistics.mean(unknown)
        found["strange_called_unknown"] = 100 * statistics.mean(answer.unknown for answer in strange)
        scores = [answer.familiarity for answer in strange]
        found["auroc"] = auroc(np.array(known_scores, float), np.array(scores, float))
    return found


def auroc(known: NDArray[np.float64], strange: NDArray[np.float64]) -> float:
    """How often a known photo is more familiar than a strange one."""
    return float((known[:, None] > strange).mean() + (known[:, None] == strange).mean() / 2)


def by_reference(draw: Draw, photos: int, folder: Path) -> dict[str, Any]:
    """The discriminant from its definition, in double precision."""
    files = [(label, file, True) for label, name in enumerate(draw.learn) for file in draw.learn[name][:photos]]
    files += [(label, file, False) for label, name in enumerate(draw.learn) for file in draw.judge[name]]
    (folder / "list").write_text("\n".join(str(file) for _, file, _ in files))
    child = [sys.executable, "-m", "benchmarks.torch_features", str(folder / "list"), str(folder / "out.npz")]
    subprocess.run(child, check=True)
    views = np.load(folder / "out.npz")["features"]
    views /= np.linalg.norm(views, axis=2, keepdims=True)
    x = views.mean(axis=1)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels, shown = np.array([label for label, _, _ in files]), np.array([is_shown for _, _, is_shown in files])
    means = np.stack([x[shown & (labels == label)].mean(axis=0) for label in range(CLASSES)])
    apart = x[shown] - means[labels[shown]]
    freedom, width = len(apart) - CLASSES, x.shape[1]
    scatter = apart.T @ apart / freedom
    share = 2.5 * width / (2.5 * width + freedom)
    shrunk = (1 - share) * scatter + share * np.trace(scatter) / width * np.eye(width)
    answers = _discriminant(shrunk, means, x[~shown])
    return {"accuracy": 100 * float((answers == labels[~shown]).mean())}


def _discriminant(covariance: NDArray[Any], means: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    weight = np.linalg.solve(covariance, means.T)
    return np.asarray((x @ weight - 0.5 * (means.T * weight).sum(axis=0)).argmax(axis=1))


def show(options: argparse.Namespace) -> None:
    cells = [json.loads(file.read_text()) for file in sorted(options.cells.glob("*.json"))]
    headings = [
        "",
        "photos a class",
        "draws",
        "accuracy",
        "lowest",
        "seconds",
        "peak MB",
        "AUROC",
        "known called unknown",
    ]
    headings += ["calibration error"]
    rows = []
    for data in ("Tiny-ImageNet", "CIFAR-10"):
        for photos in options.photos:
            for kind in ("reference", "scratch", "instant", "deep"):
                for session in ("at once", "two at a time"):
                    found = [
                        one
                        for one in cells
                        if one["draw"].startswith(data)
                        and (one["photos"], one["kind"], one["session"]) == (photos, kind, session)
                    ]
                    if found:
                        name = f"{data}, {kind}" + (f", {session}" if kind != "reference" else "")
                        rows.append([name, str(photos), *_row(found)])
    protocol = (
        f"Ten classes; judged on {NEW_PHOTOS} photos a class that were not learned, and on {STRANGE} classes that "
        f"never were. Means over the draws, and the lowest accuracy. Deep: {options.minutes:g} minutes a session."
    )
    publish(options, headings, rows, protocol)


def _row(found: list[dict[str, Any]]) -> list[str]:
    def mean(name: str, form: str) -> str:
        values = [one[name] for one in found if name in one]
        return format(statistics.mean(values), form) if values else "-"

    accuracies = [one["accuracy"] for one in found]
    return [
        str(len(found)),
        mean("accuracy", ".1f"),
        f"{min(accuracies):.1f}",
        mean("seconds", ".1f"),
        f"{max(one['megabytes'] for one in found):.0f}" if "megabytes" in found[0] else "-",
        mean("auroc", ".3f"),
        mean("known_called_unknown", ".1f"),
        mean("calibration_error", ".1f"),
    ]


if __name__ == "__main__":
    main()
