"""Searching for good settings with Ray Tune: points are drawn at random from a space, and validation images judge.

    [search]
    trials = 20
    validation = 0.2                              # share of the training images that judges
    space.method.alpha = { low = 0.05, high = 1.0, scale = "log" }
    space.buffer_size = [200, 500]                # one of these

A point is run with every seed of the sweep and judged by the mean. The points follow from the search's seed, and their
runs are named by their settings as all trials are: broken off, the same command goes on.
"""

import contextlib
import io
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.experiments.launch import TrialRequest
from sparcl.experiments.memory import demand_mb
from sparcl.experiments.on_ray import NEEDS_RAY, connect, run_request
from sparcl.experiments.sweep import Range, SearchPlan, Sweep, flattened
from sparcl.experiments.trial import Trial
from sparcl.learning.settings import validated
from sparcl.report.comparison import measures

METRIC = "accuracy"


@dataclass(frozen=True)
class Found:
    """A point, and the mean accuracy on validation images; None where it failed."""

    point: dict[str, Any]
    accuracy: float | None
    message: str = ""

    def name(self) -> str:
        written = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in self.point.items()}
        return ", ".join(f"{key}={value}" for key, value in written.items())

    def judgement(self) -> str:
        return "failed" if self.accuracy is None else f"{self.accuracy:.2f}"


@dataclass(frozen=True)
class Judge:
    """Runs a point's trials one after another, in whichever process of the cluster it is called."""

    sweep: Sweep
    root: Path
    threads: int
    validation: float
    plugins: Sequence[Path]

    def trials(self, point: Mapping[str, Any]) -> list[Trial]:
        judged = {"data": {"validation": self.validation}, "evaluation": {"split": "validation"}}
        return list(self.sweep.trials_at(point, **judged))

    def __call__(self, point: Mapping[str, Any]) -> float:
        accuracies = []
        for trial in self.trials(point):
            directory = trial.directory(self.root)
            if not directory.is_finished():
                settings = plain(trial.settings)
                request = TrialRequest(directory.path, settings, self.threads, self.plugins)
                state, message = run_request(request.to_json(), self.threads)
                if state != "finished":
                    raise RuntimeError(f"{trial.label}: {message}")
            found = measures(directory)
            accuracy = found.get("Class-IL", found.get("Domain-IL"))
            if accuracy is None:
                raise RuntimeError(f"{trial.label}: a method without Class-IL cannot be judged here")
            accuracies.append(accuracy)
        return statistics.mean(accuracies)


def search(
    sweep: Sweep,
    root: Path,
    jobs: int,
    threads: int,
    address: str | None,
    memory_mb: int,
    plugins: Sequence[Path],
    quiet: bool,
) -> list[Found]:
    """Try the plan's points; best first."""
    plan = sweep.file.search
    if plan is None:
        raise SparclError("The file has no [search]: it needs a space to search (docs/sweeps.md).")
    judge = Judge(sweep, root.resolve(), threads, plan.validation, [path.resolve() for path in plugins])
    domains = {name: _checked(name, chosen) for name, chosen in flattened(plan.space).items()}
    first = judge.trials({name: _example(chosen) for name, chosen in domains.items()})[0]  # wrong names fail here
    memory = (memory_mb or demand_mb(first.settings)) * 10**6
    ray = connect(address, jobs * threads if jobs else max(threads, len(os.sched_getaffinity(0))))
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # Tune's own account of it
            return _tuned(judge, domains, plan, {"cpu": threads, "memory": memory}, jobs, quiet)
    finally:
        ray.shutdown()


def _tuned(
    judge: Judge,
    domains: Mapping[str, Range | list[Any]],
    plan: SearchPlan,
    needs: dict[str, int],
    jobs: int,
    quiet: bool,
) -> list[Found]:
    try:
        from ray import tune
        from ray.tune.search import BasicVariantGenerator
    except ImportError as error:
        raise SparclError(NEEDS_RAY) from error

    class Teller(tune.Callback):  # type: ignore[misc]
        """Tune stores its callbacks, so this one holds nothing that cannot be stored."""

        ended = 0

        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            self._tell(Found(trial.config, trial.last_result[METRIC]))

        def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            self._tell(Found(trial.config, None))

        def _tell(self, one: Found) -> None:
            self.ended += 1
            print(f"[{self.ended}/{plan.trials}] {one.name()}: {one.judgement()}", file=sys.stderr)

    def objective(config: dict[str, Any]) -> None:
        tune.report({METRIC: judge(config)})

    tuner = tune.Tuner(
        tune.with_resources(objective, needs),
        param_space={name: _domain(tune, chosen) for name, chosen in domains.items()},
        tune_config=tune.TuneConfig(
            metric=METRIC,
            mode="max",
            num_samples=plan.trials,
            search_alg=BasicVariantGenerator(max_concurrent=jobs, random_state=plan.seed),
        ),
        run_config=tune.RunConfig(
            storage_path=str(judge.root / "tune"), callbacks=[] if quiet else [Teller()], verbose=0
        ),
    )
    results = list(tuner.fit())
    if any(not result.error and METRIC not in (result.metrics or {}) for result in results):
        raise KeyboardInterrupt  # Tune has taken Ctrl-C for itself, and ended without all of them
    found = [
        Found(result.config, None, str(result.error).strip().splitlines()[-1])
        if result.error
        else Found(result.config, result.metrics[METRIC])
        for result in results
    ]
    return sorted(found, key=lambda one: -1.0 if one.accuracy is None else one.accuracy, reverse=True)


def _checked(name: str, chosen: Any) -> Range | list[Any]:
    if isinstance(chosen, list) and chosen:
        return chosen
    if not isinstance(chosen, Mapping):
        raise SparclError(f"search.space.{name} must be a list of choices, or {{ low = ..., high = ... }}.")
    found = validated(Range, dict(chosen), prefix=f"search.space.{name}.")
    if not found.low < found.high or (found.scale == "log" and found.low <= 0):
        raise SparclError(f"search.space.{name}: low must be less than high, and above 0 on a log scale.")
    return found


def _example(chosen: Range | list[Any]) -> Any:
    return chosen[0] if isinstance(chosen, list) else chosen.low


def _domain(tune: Any, chosen: Range | list[Any]) -> Any:
    if isinstance(chosen, list):
        return tune.choice(chosen)
    return (tune.loguniform if chosen.scale == "log" else tune.uniform)(chosen.low, chosen.high)
