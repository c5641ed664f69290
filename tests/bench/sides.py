"""For tests, called in child processes: steps that behave, steps that do not, and what PyTorch's steps compute."""

import os
import signal

from sparcl.bench import dense
from sparcl.bench.contender import Side
from sparcl.bench.workload import Workload

CHUNK = 1 << 24
MAX_MB = 4000  # so that a limit that does not work costs no more than a failed test


def misbehave(how: str) -> None:
    match how:
        case "hang":
            signal.pause()
        case "eat":
            held = []
            while len(held) * CHUNK < MAX_MB * 1e6:
                held.append(b"x" * CHUNK)
            signal.pause()
        case "raise":
            raise RuntimeError("no compiler\nand more lines")
        case "exit":
            os._exit(3)
        case "print":
            print("not an answer", flush=True)
        case _:
            os.kill(os.getpid(), getattr(signal, how))


def bad_step(how: str, after: int):
    """A step that misbehaves after so many that were fine."""
    done = []

    def step() -> None:
        done.append(None)
        if len(done) > after:
            misbehave(how)

    return step


def bad_make(how: str):
    misbehave(how)
    return good_step()


def good_step():
    return lambda: None


def bad_convolution(work: Workload, threads: int, layer: str, op: str):
    return bad_step("SIGILL", after=2 if (layer, op) == ("conv2", "convolve") else 1 << 20)


def press_ctrl_c(pid_file: str):
    """A step that interrupts whoever measures it, and hangs."""

    def step() -> None:
        with open(pid_file, "w") as file:
            file.write(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()

    return step


def bad_side(how: str, after: int = 3, name: str | None = None) -> Side:
    name = name or f"bad {how}"
    return Side(name, f"The one with {how}", bad_step, {"how": how, "after": after})


def good_side(name: str = "contiguous") -> Side:
    return Side(name, f"The good {name}", good_step, {})


def losses(work: Workload, variant: str, steps: int) -> list[float]:
    step = dense.training_step(work, 1, variant)
    return [step() for _ in range(steps)]


def logits(work: Workload, variant: str) -> list[list[float]]:
    import torch

    torch.manual_seed(0)
    return dense.prediction(work, 1, variant)().float().tolist()
