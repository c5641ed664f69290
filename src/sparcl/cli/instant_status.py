"""What `sparcl status` shows of a learner with a backbone."""

from typing import Any

from rich.console import Console
from rich.table import Table

from sparcl.cli.display import print_table
from sparcl.cli.status import shown_size
from sparcl.wording import quoted


def show_instant_status(found: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    backbone, directory, classes = found["backbone"], quoted(found["directory"]), found["classes"]
    side = backbone["image_size"]
    console.print(f"backbone   {backbone['name']}, {side}x{side} pixels, {backbone['digest'][:12]}")
    console.print(
        f"size       state {shown_size(found['state_bytes'])}, directory {shown_size(found['directory_bytes'])}"
    )
    if not classes:
        console.print(f"It knows no class. Begin with: sparcl learn {directory} FOLDER FOLDER")
    else:
        judged = sum(entry["judged"] for entry in classes)
        if judged:
            seen = "never trained on" if found["deepened"] else "each judged by all the others"
            console.print(f"accuracy   {found['accuracy']:.1f}% on {judged} pictures, {seen}")
            console.print(
                f"confidence off by {found['calibration_error']:.1f} points on average"
                + ("; says `unknown` for what resembles no class" if found["says_unknown"] else "")
            )
        console.print()
        table = Table("class", "pictures", "accuracy", box=None, pad_edge=False)
        for entry in classes:
            accuracy = f"{100 * entry['right'] / entry['judged']:.1f}%" if entry["judged"] else "-"
            table.add_row(entry["name"], str(entry["kept"]), accuracy)
        print_table(table)
        _show_advice(found, console)
    if found["history"]:
        console.print()
        table = Table("session", "when (UTC)", "pictures", "seconds", "accuracy", box=None, pad_edge=False)
        for entry in found["history"]:
            pictures = ", ".join(f"{name} {count}" for name, count in entry["pictures"].items()) or "-"
            right, count = (sum(values) for values in zip((0, 0), *entry["after"]["held_out"].values(), strict=True))
            accuracy = f"{100 * right / count:.1f}%" if count else "-"
            when = entry["when"][:16].replace("T", " ")
            table.add_row(str(entry["number"]), when, pictures, f"{entry['seconds']:.1f}", accuracy)
        print_table(table)
    if found["learning"]:
        console.print("A deep learning session is running; what it learns is not in these numbers yet.")
    elif found["interrupted"]:
        console.print(
            "A deep learning session was interrupted. "
            f"Continue it: sparcl deepen {directory} --resume; drop it: sparcl undo {directory}"
        )


def _show_advice(found: dict[str, Any], console: Console) -> None:
    directory = quoted(found["directory"])
    if found["advice"] is None:
        console.print(f"\nThere are too many pictures to examine them at once. sparcl report {directory} does it.")
    elif found["advice"]:
        console.print()
        for line in found["advice"]:
            console.print(line)
        if found["examination"]["findings"]:
            console.print(f"See them with: sparcl report {directory}")
