"""Backbones by name: where they are kept, what happens to those that are missing or damaged, and the commands."""

import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

import sparcl
from sparcl.backbone import (
    DEFAULT_BACKBONE,
    Backbone,
    DamagedBackbone,
    backbone_directory,
    find_backbone,
    list_backbones,
    remove_backbone,
)
from sparcl.backbone.importing import import_backbone
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.network.parameters import Parameters


@pytest.fixture
def file(tmp_path):
    graph = build_model("convnet", (3, 16, 16), 4, 8)
    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    path = tmp_path / "small.safetensors"
    sparcl.save_backbone(graph, parameters, path)
    return path


def command(*words):
    words = [sys.executable, "-m", "sparcl.cli.main", "backbone", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_import_list_and_remove(file, home):
    assert [found.name for found in list_backbones()] == [DEFAULT_BACKBONE]
    import_backbone(file, "b")
    import_backbone(file, "a.1")
    file.unlink()  # it is not needed any more
    found = list_backbones()
    assert [one.name for one in found] == [DEFAULT_BACKBONE, "a.1", "b"]
    assert all(isinstance(one, Backbone) for one in found)
    assert found[1] == find_backbone("a.1") and found[1].digest == found[2].digest
    assert remove_backbone("b") == home / "b.safetensors"
    assert [one.name for one in list_backbones()] == [DEFAULT_BACKBONE, "a.1"]
    assert sorted(path.name for path in home.iterdir()) == ["a.1.safetensors"]


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", ".hidden", "-x", "a" * 65, "a\n", "ü", "none"])
def test_names_are_safe_names_of_files(file, name, home):
    for action in (lambda: import_backbone(file, name), lambda: find_backbone(name), lambda: remove_backbone(name)):
        with pytest.raises(SparclError, match="cannot be the name of a backbone"):
            action()
    assert not home.exists()


def test_that_of_the_package_can_be_neither_replaced_nor_removed(file, home):
    with pytest.raises(SparclError, match="Give this one another name"):
        import_backbone(file, DEFAULT_BACKBONE)
    with pytest.raises(SparclError, match="part of SparCL"):
        remove_backbone(DEFAULT_BACKBONE)
    home.mkdir(parents=True)
    (home / f"{DEFAULT_BACKBONE}.safetensors").write_bytes(file.read_bytes())
    assert find_backbone(DEFAULT_BACKBONE).features == 1280
    assert [one.name for one in list_backbones()] == [DEFAULT_BACKBONE]


def test_a_missing_one_is_said_in_one_line():
    with pytest.raises(SparclError, match=r"no backbone called 'mine'.*sparcl backbone import FILE mine"):
        find_backbone("mine")
    with pytest.raises(SparclError, match="did you mean 'mobilenet_v2'"):
        find_backbone("mobilenetv2")


def test_a_damaged_one_is_said_in_one_line_and_hides_no_other(file, home):
    import_backbone(file, "mine")
    import_backbone(file, "other")
    content = bytearray((home / "mine.safetensors").read_bytes())
    content[-1] ^= 1  # in the last number
    (home / "mine.safetensors").write_bytes(content)
    with pytest.raises(SparclError, match=r"'mine' .* is damaged in "):
        find_backbone("mine").parameters()
    assert find_backbone("mine").digest != find_backbone("other").digest
    (home / "mine.safetensors").write_bytes(content[:-1])
    with pytest.raises(SparclError, match=r"is damaged: .*Import it again: sparcl backbone import FILE mine\."):
        find_backbone("mine")
    kinds = {one.name: type(one) for one in list_backbones()}
    assert kinds == {DEFAULT_BACKBONE: Backbone, "mine": DamagedBackbone, "other": Backbone}
    checked = command("check")
    assert checked.returncode == 1 and "other is whole" in checked.stdout and "Import it again" in checked.stderr
    assert len(checked.stderr.splitlines()) == 1
    listed = command("list")
    assert listed.returncode == 0 and "mine cannot be used" in listed.stdout


def test_an_open_one_keeps_its_numbers_when_the_file_is_replaced(file, home):
    """Its digest and its weights belong together, whatever happens to the file meanwhile."""
    import_backbone(file, "mine")
    opened = find_backbone("mine")
    before = opened.parameters().values.flat.copy()
    graph = build_model("convnet", (3, 16, 16), 4, 8)
    sparcl.save_backbone(graph, Parameters(graph), file)
    import_backbone(file, "mine")
    assert np.array_equal(opened.parameters().values.flat, before)
    assert find_backbone("mine").digest != opened.digest


def test_a_failed_import_leaves_what_was_there(file, home, tmp_path):
    before = import_backbone(file, "mine")[0].digest
    save_file({"x": np.zeros(3, np.float32)}, tmp_path / "other.safetensors")
    with pytest.raises(SparclError, match="no first convolution"):
        import_backbone(tmp_path / "other.safetensors", "mine")
    save_file({"x.weight": np.zeros((4, 3, 3, 3), np.float32)}, tmp_path / "other.safetensors")
    with pytest.raises(SparclError, match=r"none of the networks .* sparcl\.save_backbone"):
        import_backbone(tmp_path / "other.safetensors", "mine")
    with pytest.raises(SparclError, match="give no options"):
        import_backbone(file, "mine", size=64)
    with pytest.raises(SparclError, match="no model called 'mobilnet_v2'; did you mean 'mobilenet_v2'"):
        import_backbone(tmp_path / "other.safetensors", "mine", model="mobilnet_v2")
    assert find_backbone("mine").digest == before
    assert [path.name for path in home.iterdir()] == ["mine.safetensors"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SPARCL_HOME": "/a"}, "/a/backbones"),
        ({"XDG_DATA_HOME": "/b"}, "/b/sparcl/backbones"),
        ({"SPARCL_HOME": "/a", "XDG_DATA_HOME": "/b"}, "/a/backbones"),
        ({"XDG_DATA_HOME": "relative"}, "/home/someone/.local/share/sparcl/backbones"),
        ({}, "/home/someone/.local/share/sparcl/backbones"),
    ],
)
def test_where_they_are_kept(monkeypatch, environment, expected):
    for name in ("SPARCL_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/someone", **environment}.items():
        monkeypatch.setenv(name, value)
    assert str(backbone_directory()) == expected


def test_the_commands(file, home):
    imported = command("import", file, "mine")
    assert imported.returncode == 0 and "mine is ready: 16 features of pictures of 16x16" in imported.stdout
    assert "sparcl new LEARNER --backbone mine" in imported.stdout
    listed = command("list").stdout.splitlines()
    assert [line.split()[0] for line in listed[:3]] == ["name", DEFAULT_BACKBONE, "mine"]
    assert f"mine is whole: SHA-256 {find_backbone('mine').digest}" in command("check", "mine").stdout
    assert command("remove", "mine").returncode == 0 and not (home / "mine.safetensors").exists()
    for words, said in {
        ("remove", "mine"): "There is no backbone called 'mine'",
        ("import", file, "x", "--mean", "1,2"): "give no options",
        ("import", file, "x", "--std", "a,b,c"): "--std takes three numbers",
        ("import", os.devnull): "is not a file with weights",
        ("import", file.parent): "without a checkpoint",
    }.items():
        refused = command(*words)
        assert refused.returncode == 1 and said in refused.stderr and len(refused.stderr.splitlines()) == 1, words
