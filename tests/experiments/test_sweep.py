"""Sweep files: what they expand to, and what is said about wrong ones."""

import itertools
import re
from pathlib import Path

import pytest

from sparcl.errors import SparclError
from sparcl.experiments.sweep import Sweep, flattened
from sparcl.learning import settings

GRID = """
base = "digits/derpp"
protocol = "online"
seeds = [3, 5]
settings.width = 8

[grid]
method.alpha = [0.1, 0.2, 0.5]
"sparsifier" = ["snip", "rigl"]
sparsity = [0.5, 0.9]
"""


def sweep(tmp_path, text):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return Sweep(path)


def test_a_grid_is_every_combination_with_every_seed(tmp_path):
    made = sweep(tmp_path, GRID).trials()
    found = [
        (one.method.options["alpha"], one.sparsifier.name, one.sparsity, one.seed)
        for one in (trial.settings for trial in made)
    ]
    assert found == list(itertools.product([0.1, 0.2, 0.5], ["snip", "rigl"], [0.5, 0.9], [3, 5]))
    for trial in made:
        assert (trial.settings.width, trial.settings.protocol, trial.settings.epochs) == (8, "online", 1)
    assert len({trial.directory(tmp_path).path for trial in made}) == len(made)


def test_a_trial_is_the_run_that_the_settings_name(tmp_path):
    [trial] = sweep(tmp_path, 'base = "digits/er"\n[grid]\nepochs = [3]').trials()
    values = settings.with_changes(settings.from_preset("digits/er"), ["epochs=3"])
    assert trial.settings == settings.resolve(values)


def test_the_base_may_be_a_file_beside_the_sweep(tmp_path):
    (tmp_path / "base.toml").write_text('dataset = "digits"\nepochs = 2\nmethod.name = "lwf"')
    [trial] = sweep(tmp_path, 'base = "base.toml"').trials()
    assert (trial.settings.method.name, trial.settings.epochs) == ("lwf", 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('base = "digits/derp"', "did you mean"),
        ('base = "digits/er"\nseed = 3', "did you mean 'seeds'"),
        ("seeds = 3", "base is missing"),
        ('base = "digits/er"\nseeds = []', "no seeds"),
        ('base = "digits/er"\n[grid]\nepochs = 3', "must be a list"),
        ('base = "digits/er"\n[grid]\nepochs = []', "must be a list"),
        ('base = "digits/er"\n[grid]\nepoch = [3]', "did you mean 'epochs'"),
        ('base = "digits/er"\n[grid]\nepochs = [0]', "epochs = 0 is wrong"),
        ('base = "digits/er"\nseeds = 1000\n[grid]\nepochs = [' + "1," * 11 + "]", "11000 trials"),
        ('base = "digits/er"\n[grid]\nseed = [1, 2]', "seeds of its own"),
        ('base = "digits/er"\nsettings.seed = 7', "seeds of its own"),
        ("base = ", "not a valid TOML file"),
        ('base = "gone.toml"', "could not be read"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, words):
    with pytest.raises(SparclError, match=words) as error:
        sweep(tmp_path, text).trials()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("written", ['"stage1.block1.conv1.weight"', "stage1.block1.conv1.weight"])
def test_a_grid_may_be_over_the_sparsity_of_a_layer(tmp_path, written):
    text = f'base = "cifar10/sparcl-er-75"\n[grid]\nsparsifier.layer_sparsity.{written} = [0.5, 0.9]'
    found = [trial.settings.sparsifier.options["layer_sparsity"] for trial in sweep(tmp_path, text).trials()]
    assert found == [{"stage1.block1.conv1.weight": 0.5}, {"stage1.block1.conv1.weight": 0.9}]


def test_the_files_of_the_page_are_sweeps(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
    grid, search = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    assert len(sweep(tmp_path, grid).trials()) == 3 * 2 * 3
    wanted = sweep(tmp_path, search)
    plan = wanted.file.search
    assert plan is not None and plan.trials == 20
    middle = {
        name: chosen[0] if isinstance(chosen, list) else chosen["low"] for name, chosen in flattened(plan.space).items()
    }
    [trial] = wanted.trials_at(middle)
    assert trial.settings.sparsifier.options["cutoff"] == 2
