"""Damages the state of a learner ten thousand times and uses what comes out, on an engine built with sanitizers.

    python -m benchmarks.state_fuzz               # builds that engine first: some minutes
    python -m benchmarks.state_fuzz --count 200
    python -m benchmarks.state_fuzz --backbone    # of a learner with a backbone, whose upper part was trained
    python -m benchmarks.state_fuzz --flips       # single bits of every file that matters, without sanitizers

Half of the damage is to bytes, as a worn-out memory card does it; the other half is to arrays and to the text beside
them, with checksums that are right again, as somebody with intentions does it. Each state must answer, or be refused in
one line; a wrong memory access, a crash, another exception or a minute without an answer ends it with an error.

--flips flips every single bit of a small model file, of a run's checkpoint and of the settings of runs and learners,
and 2,000 bits of larger ones and of a learner's state: what comes out must be refused in one line, or say the same.
"""

import argparse
import collections
import copy
import os
import random
import signal
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sparcl
from benchmarks import small_learner
from benchmarks.commands import sparcl_here
from sparcl.backbone import find_backbone
from sparcl.device.learner import Learner
from sparcl.device.states import read_sealed, write_sealed
from sparcl.errors import SparclError
from sparcl.files import Directory
from sparcl.instant.upper_part import upper_tensors
from sparcl.learning import checkpoints
from sparcl.learning.run_directory import RunDirectory
from sparcl.tensor_files import UNREADABLE

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "sanitized"
SETTINGS = {**small_learner.SETTINGS, "width": 4, "epochs": 1, "batch_size": 8, "buffer_size": 10}
ODD = (None, True, -1, 0, 1, 2**31, 2**63, 1e300, float("nan"), "", "x", "../..", [], [0] * 50, {}, {"a": 1})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="how many damaged states")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backbone", action="store_true", help="of a learner with a backbone")
    parser.add_argument("--flips", action="store_true", help="flip single bits instead")
    options = parser.parse_args()
    if options.flips:
        flip_bits(options.seed)
        return
    packages = build()
    library = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    # Without site, so that the package is the one that was built here, not the one that is installed.
    paths = [str(packages), sysconfig.get_path("purelib"), str(ROOT)]
    code = f"import sys; sys.path[:0] = {paths}; from benchmarks.state_fuzz import fuzz; "
    code += f"fuzz({options.count}, {options.seed}, {options.backbone})"
    environment = {**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    sys.exit(subprocess.run([sys.executable, "-S", "-c", code], env=environment, check=False).returncode)


def build() -> Path:
    """The package with a sanitized engine, unpacked; returns where."""
    own = ["-C", "cmake.define.SPARCL_SANITIZE=ON", "-C", f"build-dir={BUILD}/cmake"]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *own, "-w", str(BUILD), str(ROOT)]
    subprocess.run(command, check=True)
    packages = BUILD / "packages"
    with zipfile.ZipFile(next(BUILD.glob("*.whl"))) as wheel:
        wheel.extractall(packages)
    return packages


def fuzz(count: int, seed: int, backbone: bool) -> None:
    chance = random.Random(seed)
    outcomes: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        train = small_learner.digit_photos(folder / "digits")
        learner = Learner.create(folder / "shop", 32) if backbone else Learner.create(folder / "shop", **SETTINGS)
        learner.learn({name: sorted((train / name).iterdir())[:12] for name in ("0", "1")})
        path = learner.states.path(1)
        if backbone:
            add_upper_part(path)
        whole, (tensors, state) = path.read_bytes(), read_sealed(path)
        more = sorted((train / "2").iterdir())[:12]
        for number in range(count):
            kind = "bytes" if number % 2 else "content"
            if number % 2:
                path.write_bytes(damaged_bytes(whole, chance))
            else:
                write_damaged(path, tensors, state, chance)
            signal.alarm(60)  # whoever takes longer than that hangs
            try:
                opened = Learner.open(learner.directory)
                opened.status()
                opened.predict(train / "0" / "00000.png")
                if number % 20 == 0:
                    opened.learn({"2": more})
                    opened.undo()
                outcomes[f"{kind}: answered"] += 1
            except SparclError as error:
                if "\n" in str(error):
                    raise AssertionError(f"more than one line: {error}") from error
                outcomes[f"{kind}: refused"] += 1
    signal.alarm(0)
    print(f"{count} damaged states: " + ", ".join(f"{how} {times}" for how, times in sorted(outcomes.items())))


def add_upper_part(path: Path) -> None:
    """As if it had been trained, without the time that this takes."""
    tensors, state = read_sealed(path)
    own = find_backbone(state["backbone"])
    upper = upper_tensors(own.graph(state["size"]), own.parameters(state["size"]))
    write_sealed(path, {**tensors, **{f"upper.{name}": array for name, array in upper.items()}}, state)


def damaged_bytes(whole: bytes, chance: random.Random) -> bytes:
    content = bytearray(whole)
    match chance.choice(("flip", "header", "cut", "zeros", "longer")):
        case "flip":
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        case "header":
            for _ in range(chance.randint(1, 8)):
                content[chance.randrange(min(3000, len(content)))] = chance.randrange(256)
        case "cut":
            del content[chance.randrange(len(content)) :]
        case "zeros":
            start = chance.randrange(len(content))
            content[start : start + 512] = bytes(len(content[start : start + 512]))
        case _:
            content += chance.randbytes(100)
    return bytes(content)


def write_damaged(path: Path, tensors: dict[str, Any], state: dict[str, Any], chance: random.Random) -> None:
    """An array or a text that is another one than before, sealed as if it were right."""
    tensors, state = dict(tensors), copy.deepcopy(state)
    for _ in range(chance.randint(1, 3)):
        if chance.random() < 0.5:
            name = chance.choice(sorted(tensors))
            tensors[name] = damaged_array(tensors[name], chance)
        else:
            damage_text(state, chance)
    write_sealed(path, tensors, state)


def damaged_array(array: Any, chance: random.Random) -> Any:
    match chance.choice(("value", "shorter", "longer", "type", "shape", "order")):
        case "value" if array.size:
            array = array.copy()
            odd = [-1, 0, 1, 2**31 - 1, -(2**31)] if array.dtype.kind in "iu" else [np.nan, np.inf, -1, 0, 1e30]
            with np.errstate(all="ignore"):
                array.reshape(-1)[chance.randrange(array.size)] = np.array(chance.choice(odd)).astype(array.dtype)
            return array
        case "shorter":
            return array[: len(array) // 2].copy() if array.ndim else array
        case "longer":
            return np.concatenate([array, array]) if array.ndim else array
        case "type":
            with np.errstate(all="ignore"):
                return array.astype(chance.choice(["float32", "float64", "int64", "uint8", "int32", "bool"]))
        case "shape":
            return array.reshape(-1)
        case _:
            return array[::-1].copy() if array.ndim else array


def damage_text(value: Any, chance: random.Random) -> None:
    """One value, anywhere in it, becomes another or goes."""
    while True:
        key = chance.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
        if not isinstance(value[key], dict | list) or not value[key] or chance.random() < 0.3:
            break
        value = value[key]
    if chance.random() < 0.2:
        del value[key]
    else:
        value[key] = copy.deepcopy(chance.choice(ODD))


def flip_bits(seed: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        for name, path, read, every in cases(Path(temporary)):
            whole, before = path.read_bytes(), read(path)
            bits = 8 * len(whole)
            chosen = range(bits) if every else sorted(random.Random(seed).sample(range(bits), 2000))
            refused = 0
            for bit in chosen:
                content = bytearray(whole)
                content[bit // 8] ^= 1 << bit % 8
                path.write_bytes(content)
                try:
                    if read(path) != before:
                        sys.exit(f"{name}: bit {bit % 8} of byte {bit // 8} changes what it says")
                except (SparclError, *UNREADABLE) as error:
                    refused += 1
                    if isinstance(error, SparclError) and "\n" in str(error):
                        sys.exit(f"{name}: more than one line: {error}")
            path.write_bytes(whole)
            print(f"{name}: {len(chosen):,} of {bits:,} bits flipped, {refused:,} refused, the others said the same")


def cases(folder: Path) -> Iterator[tuple[str, Path, Callable[[Path], object], bool]]:
    """A name, the file, what it says, and whether every bit is flipped."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 1, 8, 8)).astype(np.uint8)

    def predictions(path: Path) -> object:
        model = sparcl.load(path)
        return model.classes, model.predict(pixels, threads=1).tobytes()

    def checkpoint(path: Path) -> object:
        with Directory.open(path.parent) as directory:
            tensors, state = checkpoints.read(directory, path.name)
        arrays = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in tensors.items()}
        return arrays, {name: value for name, value in state.items() if name in known}

    for size, model, width, every in (("small", "convnet", 2, True), ("larger", "resnet18", 8, False)):
        run = folder / f"{size} run"
        settings = [f"model={model}", f"width={width}", "epochs=1", "data.tasks=2", "threads=1"]
        options = [word for setting in settings for word in ("--set", setting)]
        sparcl_here("run", "digits/sparcl-er-90", *options, "--set", "buffer_size=2", "--quiet", "--out", run)
        sparcl_here("export", run, folder / f"{size}.sparcl", "--precision", "int8")
        yield f"{size} model file", folder / f"{size}.sparcl", predictions, every
        newest = max((run / "checkpoints").iterdir())
        with Directory.open(newest.parent) as directory:
            known = set(checkpoints.read(directory, newest.name)[1])
        yield f"checkpoint of a {size} run", newest, checkpoint, every
        if every:
            yield "settings of a run", run / "settings.json", lambda path: RunDirectory(path.parent).settings(), True
    train = small_learner.digit_photos(folder / "digits")
    learner = Learner.create(folder / "shop", **{**SETTINGS, "width": 2, "buffer_size": 2})
    learner.learn({name: sorted((train / name).iterdir())[:6] for name in ("0", "1")})
    picture = train / "0" / "00000.png"

    def answer(path: Path) -> object:
        opened = Learner.open(folder / "shop")
        (found,) = opened.predict(picture)
        return opened.settings, found.classes, found.confidences

    yield "settings of a learner", folder / "shop" / "settings.json", answer, True
    yield "state of a learner", learner.states.path(1), answer, False


if __name__ == "__main__":
    main()
