"""The files of the paper's tables and figures: they hold what the paper prints, and every row of them can be run."""

import pytest

from sparcl.errors import SparclError
from sparcl.experiments.experiment import Group, groups, load, names, trials
from sparcl.experiments.outcome import Value, grid
from sparcl.learning.settings import run_key

CIFAR10 = Group("cifar10", "cifar10")

OWN = """
source = "mine"
title = "mine"
kind = "{kind}"
datasets = {datasets}
columns = ["class_il", "flops", "memory"]
rows = [{{label = "ER", run = "er"}}{more}]
"""


def own(path, kind="table", datasets='["digits"]', more=""):
    path.write_text(OWN.format(kind=kind, datasets=datasets, more=more))
    return load(str(path))


def test_a_table_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    found = grid(own(path), [Group("digits", "digits")], {}, tmp_path, {})
    assert [heading.name for heading in found.headings] == ["Class-IL", "FLOPs"]
    with pytest.raises(SparclError, match="nothing to learn"):
        own(path, datasets="[]")
    with pytest.raises(SparclError, match="'ER' is there twice"):
        own(path, more=', {label = "ER", run = "derpp"}')
    with pytest.raises(SparclError, match="each of its rows needs a run"):
        own(path, kind="speed", more=', {label = "what the paper says"}')


# Class-IL and Task-IL on CIFAR-10, read from the paper a second time.
TABLE_1 = {
    "ER (200)": (44.79, 91.19),
    "DER++ (200)": (64.88, 91.92),
    "SparCL-ER 0.75 (200)": (46.89, 92.02),
    "SparCL-DER++ 0.75 (200)": (66.30, 94.06),
    "SparCL-DER++ 0.90 (200)": (65.79, 93.73),
    "SparCL-DER++ 0.95 (200)": (65.18, 92.97),
    "ER (500)": (57.74, 93.61),
    "DER++ (500)": (72.70, 93.88),
    "SparCL-DER++ 0.75 (500)": (74.09, 95.19),
    "SparCL-DER++ 0.90 (500)": (73.42, 94.82),
    "SparCL-DER++ 0.95 (500)": (72.14, 94.39),
}


def keys(name, protocol="full"):
    """The runs of an experiment on CIFAR-10, seed 0, by row."""
    experiment = load(name)
    return {
        row.label: run_key(one.settings)
        for row in experiment.rows
        for one in trials(experiment, row, CIFAR10, protocol, [0])
    }


def test_every_table_and_figure_of_the_paper_is_there():
    tables = ["table1", "table2", "table3", "tableA1", "tableA2", "tableA3"]
    assert names() == [*tables, "fig1", "fig3", "fig4", "fig5"]


def test_table_1_holds_the_papers_accuracies():
    printed = {row.label: row.paper["cifar10"] for row in load("table1").rows}
    assert len(printed) == 26
    for label, (class_il, task_il) in TABLE_1.items():
        assert (printed[label]["class_il"][0], printed[label]["task_il"][0]) == (class_il, task_il)
    assert "class_il" not in printed["PackNet"] and "class_il" not in printed["LPS"]


def test_the_tables_agree_where_they_print_the_same_run():
    """A run that stands in two tables is run once, and has the same number in both."""
    seen: dict[str, float] = {}
    repeated = 0
    for name in names():
        runs = keys(name)
        for row in load(name).rows:
            printed = Value.printed(row.paper.get("cifar10", {}).get("class_il")).mean
            if row.run is None or printed is None:
                continue
            run = runs[row.label]
            repeated += run in seen
            assert seen.setdefault(run, printed) == printed, (name, row.label)
    assert repeated >= 14


@pytest.mark.parametrize("protocol", ["full", "reduced", "smoke"])
@pytest.mark.parametrize("name", names())
def test_every_row_is_a_run_of_its_own(name, protocol):
    experiment = load(name)
    for group in groups(experiment, protocol, []):
        made = [one for row in experiment.rows for one in trials(experiment, row, group, protocol, [0, 1])]
        assert len({run_key(one.settings) for one in made}) == 2 * sum(row.run is not None for row in experiment.rows)


def test_every_cost_of_the_paper_stands_beside_its_row(tmp_path):
    for name, columns in (("table1", 2), ("table2", 2), ("table3", 2), ("tableA2", 2), ("tableA3", 2)):
        experiment = load(name)
        shown = grid(experiment, groups(experiment, "full", []), {}, tmp_path, {})
        places = [
            place for place, heading in enumerate(shown.headings) if heading.name in ("FLOPs, paper", "MB, paper")
        ]
        assert len(places) == columns
        assert all(values[place].mean is not None for _, values in shown.rows for place in places)


def test_wrong_names_are_told_in_one_line():
    for ask, words in (
        (lambda: load("tabel1"), "did you mean 'table1'"),
        (lambda: groups(load("table1"), "reduced", ["mnist"]), "data set in Table 1"),
        (lambda: groups(load("table1"), "smoke", ["mnist"]), "data set in Table 1"),
        (lambda: groups(load("table1"), "short", ["tiny_imagenet"]), "protocol of tiny_imagenet"),
        (lambda: load("table1").only(["DER#"]), "has no row 'DER#'"),
    ):
        with pytest.raises(SparclError, match=words):
            ask()
