"""`sparcl doctor`: what this machine has, and what is missing for which command."""

import json
from typing import Annotated

import typer
from rich.console import Console

from sparcl import _engine
from sparcl.data import DATASETS
from sparcl.data.frames import NEEDS_VIDEO
from sparcl.data.pictures import NEEDS_HEIC
from sparcl.deploy.onnx import NEEDS_ONNX
from sparcl.errors import SparclError
from sparcl.experiments.on_ray import NEEDS_RAY
from sparcl.learning import environment
from sparcl.network.backend import NEEDS_TORCH


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False) -> None:
    """Describe this machine: its instruction sets, installed versions, and what is missing for which command."""
    found = environment.describe()
    found["available_instruction_sets"] = _engine.available_instruction_sets()
    found["engine_threads"] = _engine.threads()
    found["missing"] = _missing()
    if as_json:
        print(json.dumps(found))
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    packages = ", ".join(f"{name} {version or 'not installed'}" for name, version in found["packages"].items())
    console.print(f"sparcl {found['sparcl']}, Python {found['python']}, {found['system']}")
    console.print(f"processor        {found['processor']}, {found['cores']} cores")
    console.print(
        f"instruction set  {found['instruction_set']} of {', '.join(found['available_instruction_sets'])} "
        "(choose another with SPARCL_ISA)"
    )
    console.print(f"threads          {found['engine_threads']} (choose with --set threads=N)")
    console.print(f"packages         {packages}")
    for command, remedy in found["missing"].items():
        console.print(f"missing for      {command}: {remedy}")
    if not found["missing"]:
        console.print("nothing is missing")


def _missing() -> dict[str, str]:
    missing = {}
    if environment.installed_version("torch") is None:
        missing["backend=torch and sparcl bench"] = NEEDS_TORCH
    if environment.installed_version("ray") is None:
        missing["sparcl sweep --on ray"] = NEEDS_RAY
    if environment.installed_version("onnx") is None:
        missing["sparcl export --onnx"] = NEEDS_ONNX
    if environment.installed_version("av") is None:
        missing["learning from videos and cameras"] = NEEDS_VIDEO
    if environment.installed_version("pillow-heif") is None:
        missing["HEIC photos"] = f"Install what reads them with: {NEEDS_HEIC}"
    for name, source in DATASETS.items():
        if source.image_size is None:
            continue  # the user's own images lie wherever the user says
        try:
            source.files(None)
        except SparclError as error:
            missing[f"sparcl run {name}/..."] = str(error)
    return missing
