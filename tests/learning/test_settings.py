import pytest

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.learning.settings import fingerprint, from_file, from_preset, resolve, with_changes

DERPP = "d83886ffe82361ca3f30a2a176bec5e05c2ef45ebb56ff444d9038b2ebfb3402"  # of digits/derpp


def settings_of(preset, *changes, protocol="full"):
    return resolve(with_changes({**from_preset(preset), "protocol": protocol}, changes))


def test_defaults_come_from_protocol_and_method():
    settings = settings_of("cifar10/derpp")
    assert (settings.width, settings.epochs, settings.batch_size) == (64, 50, 32)
    assert settings.method.options.items() >= {"learning_rate": 0.03, "alpha": 0.2, "beta": 0.5}.items()


def test_tuned_values_follow_the_buffer_size_and_yield_to_the_user():
    assert settings_of("cifar10/derpp", "buffer_size=200").method.options["alpha"] == 0.1
    assert settings_of("cifar10/derpp", "method.alpha=0.7").method.options["alpha"] == 0.7


def test_what_a_protocol_says_of_methods_is_for_those_that_know_it_and_yields_to_the_user():
    assert settings_of("cifar10/ewc", protocol="reduced").method.options["fisher_samples"] == 1000
    assert (
        settings_of("cifar10/ewc", "method.fisher_samples=7", protocol="reduced").method.options["fisher_samples"] == 7
    )
    assert settings_of("cifar10/ewc").method.options["fisher_samples"] is None
    assert "fisher_samples" not in settings_of("cifar10/er", protocol="reduced").method.options


def test_changes_reach_into_sections_and_may_name_another_method():
    settings = settings_of("cifar10/derpp", "data.tasks=2", "evaluation.bn_recalibration=true", protocol="reduced")
    assert (settings.data.tasks, settings.data.images_per_task) == (2, 5000)
    assert settings.evaluation.bn_recalibration
    assert settings_of("digits/derpp", "data.class_order=shuffled").data.class_order == "shuffled"
    assert settings_of("digits/derpp", "method=er").method.name == "er"


def test_a_name_with_dots_is_quoted():
    settings = settings_of("cifar10/sparcl-er-90", 'sparsifier.layer_sparsity."stage1.block1.conv1"=0.5')
    assert settings.sparsifier.options["layer_sparsity"] == {"stage1.block1.conv1": 0.5}


def test_the_official_preset_sets_named_options_and_yields_to_the_user():
    official = settings_of("cifar10/sparcl-derpp-90", "sparsifier.preset=official", "method.alpha=0.3")
    options, method = official.sparsifier.options, official.method.options
    assert (options["initial_mask"], options["schedule"], official.drop_last) == ("magnitude", "epoch_start", True)
    assert (method["single_head"], method["replay_from_task"], method["alpha"]) == (True, 2, 0.3)
    assert settings_of("cifar10/sparcl-derpp-90").sparsifier.options["schedule"] == "stage_end"


def test_settings_survive_their_own_json():
    settings = settings_of("cifar10/derpp", "seed=3", "method.beta=0.25", protocol="reduced")
    assert resolve(plain(settings)) == settings


def test_a_toml_file_describes_a_run(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('dataset = "digits"\nseed = 4\n[method]\nname = "derpp"\nalpha = 0.5\n[data]\ntasks = 2\n')
    settings = resolve(from_file(path))
    assert (settings.seed, settings.data.tasks, settings.method.options["alpha"]) == (4, 2, 0.5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("epoch=3", "no setting called 'epoch'; did you mean 'epochs'?"),
        ("evaluation.snapshot=3", "no setting called 'evaluation.snapshot'; did you mean 'evaluation.snapshots'?"),
        ("method.aplha=3", "no setting called 'method.aplha'; did you mean 'method.alpha'?"),
        ("method=derp", "no method called 'derp'; did you mean"),
        ("dataset=cifar", "no data set called 'cifar'; did you mean 'cifar10'?"),
        ("protocol=reduzed", "no protocol of digits called 'reduzed'"),
        ("model=resnet", "no model called 'resnet'"),
        ("epochs=many", "The setting epochs = 'many' is wrong"),
        ("epochs=0", "The setting epochs = 0 is wrong: it must be at least 1"),
        ("method.alpha=nan", "The setting method.alpha = nan is wrong"),
        ("data=3", "The setting data = 3 is wrong: it is a section"),
        ("data.class_order=random", "data.class_order = 'random' is wrong: choose one of: natural, shuffled"),
        ("evaluation.split=validation", "add data.validation=0.1"),
        ("epochs", "is not a setting: write key=value"),
        ('sparsifier.layer_sparsity."conv2"=0.5', "needs a sparsifier"),
        ('sparsifier.layer_sparsity."conv2"=1.5', "it must be less than 1"),
    ],
)
def test_every_mistake_gets_one_line(change, expected):
    with pytest.raises(SparclError) as caught:
        settings_of("digits/derpp", change)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", ["cutoff=0", "stage_epochs=0", "rho=1", "q=-0.1", "gradient_interval=0"])
def test_options_of_a_sparsifier_have_bounds(change):
    with pytest.raises(SparclError, match="is wrong"):
        settings_of("digits/sparcl-derpp-90", f"sparsifier.{change}")


@pytest.mark.parametrize("content", [b"epochs = ", b"\xff\xfe", b"seed = 1\n", b"method = 3\n"])
def test_a_bad_file_gets_one_line(tmp_path, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(SparclError) as caught:
        resolve(from_file(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_name_that_is_no_preset(tmp_path):
    with pytest.raises(SparclError, match="could not be read"):
        from_file(tmp_path / "none.toml")
    with pytest.raises(SparclError, match="DATASET/METHOD"):
        from_preset("digits")


def test_a_name_stands_for_an_optimizer_or_a_schedule():
    settings = settings_of("digits/er", "optimizer=adamw", "optimizer.betas=[0.8, 0.9]", "schedule=cosine")
    assert (settings.optimizer.name, settings.optimizer.betas, settings.schedule.name) == (
        "adamw",
        (0.8, 0.9),
        "cosine",
    )
    by_name = resolve({"method": "er", "optimizer": "adamw", "schedule": "linear", "rates": {"conv1": 0}})
    assert (by_name.optimizer.name, by_name.schedule.name, by_name.rates) == ("adamw", "linear", {"conv1": 0.0})
    assert resolve(plain(settings)) == settings
    nested = settings_of("cifar10/er", 'rates."stage1.block1"=0.5', "rates.stem=0").rates
    assert nested == {"stage1.block1": 0.5, "stem": 0.0}


def test_adamw_has_pytorchs_rate_and_decay_unless_told_otherwise():
    options = settings_of("cifar10/derpp", "optimizer=adamw").method.options
    assert (options["learning_rate"], options["weight_decay"]) == (1e-3, 1e-2)
    assert options["alpha"] == settings_of("cifar10/derpp").method.options["alpha"]
    told = settings_of("digits/lwf", "optimizer=adamw", "method.learning_rate=0.5").method.options
    assert (told["learning_rate"], told["weight_decay"]) == (0.5, 1e-2)
    assert settings_of("digits/lwf", "optimizer=sgd").method.options["weight_decay"] == 5e-4


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["optimizer=adam"], "optimizer.name = 'adam' is wrong: choose one of: sgd, adamw"),
        (["optimizer.momentum=1"], "it must be less than 1"),
        (["optimizer.nesterov=true"], "needs a momentum"),
        (["optimizer=adamw", "optimizer.momentum=0.9"], "are for optimizer=sgd"),
        (["optimizer.eps=1e-6"], "are for optimizer=adamw"),
        (["optimizer.betas=[0.9, 1.0]"], "optimizer.betas.1 = 1.0 is wrong: it must be at most 0.9999"),
        (["optimizer.learning_rate=1"], "did you mean 'method.learning_rate'"),
        (["momentum=0.9"], "did you mean 'optimizer.momentum'"),
        (["lr_scheduler=cosine"], "did you mean 'schedule"),
        (["schedule=step"], "choose one of: constant, linear, cosine"),
        (["schedule.warmup_steps=-1"], "it must be at least 0"),
        (["schedule.warmup=3"], "did you mean 'schedule.warmup_steps'"),
        (["rates.conv1=-1"], "rates.conv1 = -1.0 is wrong: it must be at least 0"),
        (["rates=3"], "it must be a table of names and values"),
        (["method=packnet", "rates.conv1=0"], "packnet cannot freeze parts of a network"),
    ],
)
def test_wrong_optimizers_schedules_and_rates_are_explained_in_one_line(changes, expected):
    with pytest.raises(SparclError) as caught:
        settings_of("digits/er", *changes)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_runs_of_version_0_1_0_stay_the_same_runs():
    """What names a run on disk, and what its checkpoints refer to; as that version had it."""
    assert fingerprint(settings_of("digits/derpp")) == DERPP
    changed = (["optimizer.momentum=0.5"], ["schedule=linear"], ["schedule.warmup_steps=1"], ["rates.conv1=0.5"])
    assert len({DERPP, *(fingerprint(settings_of("digits/derpp", *changes)) for changes in changed)}) == 5
