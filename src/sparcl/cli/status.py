"""What `sparcl status` shows."""

from typing import Any

from rich.console import Console
from rich.table import Table

from sparcl.cli.display import print_table
from sparcl.device.history import HistoryEntry
from sparcl.device.judgement import Judgement
from sparcl.wording import counted, quoted


def show_status(found: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    network, buffer, directory = found["network"], found["buffer"], quoted(found["directory"])
    console.print(
        f"network    {network['model']} of width {network['width']}, {network['image_size']}x{network['image_size']} "
        f"pixels, {network['outputs']} outputs, {100 * network['sparsity']:.0f}% sparse "
        f"({network['stored_parameters']:,} of {network['parameters']:,} parameters stored)"
    )
    if found["weights"]:
        console.print(f"weights    started from {found['weights']['file']}")
    console.print(f"method     {found['method']}")
    console.print(
        f"buffer     {buffer['kept']} of {buffer['capacity']} samples, {shown_size(buffer['bytes'])}, of "
        f"{counted(buffer['pictures'], 'different picture')}"
    )
    console.print(
        f"size       state {shown_size(found['state_bytes'])}, directory {shown_size(found['directory_bytes'])}"
    )
    history: list[HistoryEntry] = found["history"]
    if history:
        last = history[-1].after
        console.print(f"accuracy   {_accuracy(last)}")
        console.print()
        _show_classes(found, last)
        console.print()
        _show_history(history)
        if found["caution"]:
            console.print(f"WARNING: {found['caution']}")
    else:
        console.print(f"Nothing is learned yet. Begin with: sparcl learn {directory} FOLDER FOLDER")
    if found["learning"]:
        console.print("A learning session is running; what it learns is not in these numbers yet.")
    elif found["resumable"]:
        console.print(
            "A learning session was interrupted. "
            f"Continue it: sparcl learn {directory} --resume; drop it: sparcl undo {directory}"
        )
    elif found["interrupted"]:
        console.print(
            "A learning session was interrupted while its pictures were being read: nothing of it is learned. "
            f"Give its folders again, or drop it: sparcl undo {directory}"
        )


def _show_classes(found: dict[str, Any], last: Judgement) -> None:
    table = Table("class", "samples kept", "held out", "accuracy", box=None, pad_edge=False)
    for entry in found["classes"]:
        right, count = last.held_out.get(entry["name"], (0, 0))
        accuracy = f"{100 * right / count:.1f}%" if count else "-"
        table.add_row(entry["name"], str(entry["kept"]), str(entry["held_out"]), accuracy)
    print_table(table)


def _show_history(history: list[HistoryEntry]) -> None:
    table = Table(
        *("session", "when (UTC)", "pictures", "epochs", "seconds", "classes known before", "all classes"),
        box=None,
        pad_edge=False,
    )
    for entry in history:
        pictures = ", ".join(f"{name} {count}" for name, count in entry.pictures.items())
        known = "-"
        if entry.before and entry.before.accuracy is not None:
            then = entry.after.of(list(entry.before.held_out)).accuracy
            known = f"{_percent(entry.before.accuracy)}, then {_percent(then)}"
        numbers = (str(entry.epochs), f"{entry.seconds:.0f}", known, _percent(entry.after.accuracy))
        table.add_row(str(entry.number), entry.when[:16].replace("T", " "), pictures, *numbers)
    print_table(table)


def _accuracy(judgement: Judgement) -> str:
    count = sum(number for _, number in judgement.held_out.values())
    text = f"{_percent(judgement.accuracy)} on {count} held-out pictures"
    if judgement.buffer and judgement.buffer[1]:
        text += f", {100 * judgement.buffer[0] / judgement.buffer[1]:.1f}% on the buffer"
    return text


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}%"


def shown_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
