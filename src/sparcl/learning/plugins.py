"""Methods, data sets, networks and sparsifiers of the user's own, from Python files that he names."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from sparcl.errors import SparclError


def import_plugins(paths: Sequence[Path] | None) -> None:
    """Run the Python files that the user names, so that what is in them is registered."""
    for path in paths or []:
        name = f"sparcl_plugin_{path.stem}"  # a name of its own: json.py must not become the module json
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise SparclError(f"{path} is not a Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # so that the annotations in it can be resolved
        spec.loader.exec_module(module)
