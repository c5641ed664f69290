"""Every cost the paper prints, and the command that shows them."""

import json

import pytest
import typer
from typer.testing import CliRunner

from sparcl.cli import cost
from sparcl.errors import SparclError
from sparcl.report.paper_costs import AGREES_WITHIN, MEMORY, REASONS, paper_cells

CELLS = list(paper_cells(cost.paper_network((3, 32, 32), 10), cost.paper_network((3, 64, 64), 200)))


def run(arguments):
    app = typer.Typer()
    app.command()(cost.cost)
    return CliRunner().invoke(app, arguments.split())


def test_every_cell_of_the_five_tables_is_there():
    counts = {table: sum(cell.table == table for cell in CELLS) for table in ("1", "2", "3", "A2", "A3")}
    assert counts == {"1": 52, "2": 14, "3": 10, "A2": 10, "A3": 14}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.table}-{cell.row}-{cell.column}")
def test_a_cell_agrees_with_the_paper_or_is_explained(cell):
    if cell.column == MEMORY:
        assert round(cell.ours) == cell.paper
    elif cell.explanation == "DGM":
        assert abs(cell.deviation) <= 0.3
    elif cell.explanation == "partition":
        assert abs(cell.deviation) <= 0.2
    else:
        assert abs(cell.deviation) <= AGREES_WITHIN
    assert bool(cell.reason) == cell.deviates


def test_the_numbers_in_the_reasons():
    network = cost.paper_network((3, 32, 32), 10)
    saved = 1 - network.density(0.80) / network.density(0.75)  # of the weight gradients
    assert f"{saved / 5:.1%}" == "3.8%" and "3.8%" in REASONS["DGM"]
    assert f"{saved / 4:.1%}" == "4.7%" and "4.7%" in REASONS["DGM"]
    tiny = cost.paper_network((3, 64, 64), 200)
    by_footnote = [round(8.331 * network.density(0.5), 1), round(13.331 * tiny.density(0.5), 1)]
    assert by_footnote == [4.2, 6.8]
    shares = [(tasks + 1) / (2 * tasks) for tasks in (5, 10)]
    assert [round(dense * share, 1) for dense, share in zip((8.331, 13.331), shares, strict=True)] == [5.0, 7.3]


def test_the_command_shows_the_paper():
    shown = run("--paper").stdout
    assert "Table A3" in shown and "…" not in shown
    assert all(f"[{number}]" in shown for number in (1, 2))
    cells = json.loads(run("--paper --json").stdout)
    assert len(cells) == len(CELLS)
    assert {"table", "row", "column", "paper", "ours", "deviation", "reason"} <= set(cells[0])
    assert any(cell["reason"] for cell in cells)


def test_the_command_counts_a_preset_without_its_data(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARCL_DATA", str(tmp_path))
    counted = json.loads(run("cifar10/derpp --json").stdout)
    assert round(counted["paper"]["flops"] / 1e15, 1) == 13.9
    assert counted["full"]["flops"] == sum(counted["full"]["layers"].values())
    assert round(counted["memory_mb"], 1) == 246.7
    assert counted["steps"] == 5 * 50 * 313
    tasks = json.loads(run("cifar10/sgd --json --set data.tasks=2 --set data.validation=0.1 --set epochs=1").stdout)
    assert tasks["full"]["phases"]["forward"] == 2 * 9_000 * 2 * (tasks["macs"])


def test_the_command_counts_joint_training_as_one_task():
    counted = json.loads(run("digits/joint --json --set epochs=1").stdout)
    assert counted["steps"] == -(-counted["full"]["phases"]["forward"] // (2 * counted["macs"]) // 16)


def test_the_command_prints_phases_and_layers():
    shown = run("digits/er --layers").stdout
    assert "replay backward weight" in shown and "conv2" in shown and "…" not in shown


@pytest.mark.parametrize("arguments", ["", "--paper digits/er"])
def test_either_a_preset_or_the_paper(arguments):
    assert isinstance(run(arguments).exception, SparclError)


def test_buffer_size_zero_replays_nothing():
    counted = json.loads(run("digits/derpp --json --set buffer_size=0").stdout)
    assert counted["full"]["phases"]["replay_forward"] == 0
