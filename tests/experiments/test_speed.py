"""The speeds of Figure 4: rows take turns in processes of their own. No test looks at a time."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparcl.experiments import speed
from sparcl.learning.settings import resolve

SMALL = {"dataset": "digits", "width": 4, "batch_size": 4, "buffer_size": 20, "data": {"tasks": 2}}


def killed_on_torch(values: dict[str, Any], plugins: list[Path]):
    if values["backend"] == "torch":
        os.kill(os.getpid(), signal.SIGILL)
    return speed.train_here(values, plugins)


def measured(notes):
    chosen = {
        "DER++": resolve({**SMALL, "method": "derpp"}),
        "SparCL": resolve({**SMALL, "method": "derpp", "sparsifier": "sparcl", "sparsity": 0.9}),
    }
    experiment = SimpleNamespace(rows=[SimpleNamespace(label=label) for label in chosen])
    cells = {(label, "digits"): [SimpleNamespace(settings=one)] for label, one in chosen.items()}
    group = SimpleNamespace(dataset="digits")
    return speed.training_speeds(experiment, [group], cells, [], 1, notes.append, lambda *_: None)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(speed, "ROUNDS", 1)


def test_rows_are_measured_against_the_first_on_pytorch():
    notes = []
    found = measured(notes)
    assert notes == []
    assert found["DER++", "digits"].mean == 1.0
    assert found["SparCL", "digits"].mean > 0


def test_if_pytorch_dies_the_dense_training_is_that_of_our_engine(monkeypatch):
    monkeypatch.setattr(speed, "train_here", killed_on_torch)
    notes = []
    found = measured(notes)
    assert notes == [
        "DER++ on PyTorch left out: its process died of SIGILL (illegal instruction).",
        "PyTorch does not work here: the dense training is that of our engine.",
    ]
    assert found["DER++", "digits"].mean == 1.0
    assert found["SparCL", "digits"].mean > 0
