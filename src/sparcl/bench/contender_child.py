"""The process of a contender (contender.py): python -m sparcl.bench.contender_child, asked on standard input."""

import contextlib
import ctypes
import importlib
import inspect
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparcl.bench.timing import Step, timed
from sparcl.checked import FieldRule, check_fields

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
MAX_REASON = 200  # characters


def main() -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves a note, not a file of gigabytes
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # if the system must end a process, then this one
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with open(os.devnull, "r+b") as nowhere:  # foreign code may print what it likes
        os.dup2(nowhere.fileno(), 0)
        os.dup2(nowhere.fileno(), 1)
    step: Step | None = None
    for line in requests:
        try:
            match json.loads(line):
                case {"call": address, "arguments": arguments}:
                    answer = {"value": _call(address, arguments)}
                case {"prepare": address, "arguments": arguments}:
                    step = None  # what it holds is not needed any more
                    step = _call(address, arguments)
                    step()
                    answer = {"value": None}
                case {"turn": count} if step is not None:
                    answer = {"value": timed(step, count)}
                case _:
                    raise AssertionError("the request makes no sense")
            text = json.dumps(answer)
        except Exception as error:
            text = json.dumps({"failed": _reason(error)})
        print(text, file=answers, flush=True)


def _call(address: str, arguments: dict[str, Any]) -> Any:
    module, name = address.split(":")
    function = getattr(importlib.import_module(module), name)
    return function(**check_fields(_rules(function), arguments))


def _rules(function: Callable[..., Any]) -> dict[str, FieldRule]:
    return {name: FieldRule(one.annotation) for name, one in inspect.signature(function).parameters.items()}


def _reason(error: Exception) -> str:
    """The first line of what is wrong."""
    if isinstance(error, MemoryError):
        return "it ran out of memory"
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:MAX_REASON].rstrip(".")


if __name__ == "__main__":
    main()
