"""Imports point one way: a room may only use the rooms below it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sparcl"
FREE = {  # used by everyone
    *(
        "checked",
        "errors",
        "files",
        "generators",
        "hints",
        "options",
        "seals",
        "tensor_files",
        "wording",
        "_engine",
        "",
    ),
}
ALLOWED = {
    "data": set(),
    "metrics": set(),
    "operations": set(),
    "graph": {"operations"},
    "figures": set(),
    "compiler": {"operations", "graph"},
    "network": {"operations", "graph", "compiler"},
    "deploy": {"operations", "graph", "compiler", "network"},
    "weights": {"graph", "network"},
    "backbone": {"operations", "graph", "compiler", "network", "weights"},
    "tuning": {"operations", "graph", "network"},
    "methods": {"data", "network"},
    "sparsity": {"operations", "network", "graph", "methods", "data", "metrics"},
    "learning": {"operations", "data", "metrics", "graph", "network", "methods", "sparsity", "tuning", "weights"},
    "device": {"data", "graph", "network", "deploy", "methods", "sparsity", "learning", "weights", "backbone"},
    "report": {"figures", "learning", "metrics", "sparsity"},
    "instant": {
        *("operations", "graph", "data", "network", "learning", "backbone", "device", "figures", "report"),
    },
    "bench": {
        "operations",
        "data",
        "metrics",
        "graph",
        "compiler",
        "network",
        "methods",
        "sparsity",
        "learning",
        "tuning",
        "report",
        "figures",
        "deploy",
    },
    "experiments": {
        *("data", "metrics", "graph", "network", "methods", "sparsity", "learning", "report", "bench", "figures"),
    },
    "cli": {
        *("data", "metrics", "graph", "compiler", "network", "methods", "sparsity", "learning", "report", "tuning"),
        *("bench", "deploy", "device", "experiments", "backbone", "instant"),
    },
}


def rooms_imported_by(file: Path) -> set[str]:
    modules: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "sparcl":
            modules += [f"sparcl.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.append(node.module)
    return {module.split(".")[1] for module in modules if module.startswith("sparcl.")}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_the_rooms_below_it(room):
    for file in (SOURCE / room).rglob("*.py"):
        used = rooms_imported_by(file) - FREE - {room, "__version__"}
        assert used <= ALLOWED[room], f"{file} imports from {used - ALLOWED[room]}"


def test_every_room_is_listed():
    rooms = {path.parent.name for path in SOURCE.glob("*/*.py")}
    assert rooms <= set(ALLOWED)
    # The package itself names the public classes for type checkers; tests/test_public_api.py sees that it loads none.
    files = [file for file in SOURCE.glob("*.py") if file.name != "__init__.py"]
    assert all(rooms_imported_by(file) <= FREE for file in files)


def test_the_core_does_not_import_torch():
    """A device has no torch: only the torch backend may import it at the top of a file."""
    for file in SOURCE.rglob("*.py"):
        if file == SOURCE / "network" / "torch.py":
            continue
        top_level = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [alias.name for node in top_level if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in top_level if isinstance(node, ast.ImportFrom)]
        assert not any(name.split(".")[0] == "torch" for name in names), file
