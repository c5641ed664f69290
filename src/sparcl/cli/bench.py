"""`sparcl bench`: how fast and how small, measured on this machine beside PyTorch."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sparcl.bench import growth as growth_of
from sparcl.bench import tables
from sparcl.bench.layers import measure_layers, totals
from sparcl.bench.machine import Machine
from sparcl.bench.memory import measure_memory
from sparcl.bench.versus import Protocol, VersusRow, measure
from sparcl.bench.watched import Limits
from sparcl.bench.workload import Kind, Workload
from sparcl.cli.bench_display import show, show_layers, show_origin
from sparcl.cli.bench_options import (
    BatchOption,
    CompileOption,
    ImageSizeOption,
    IntoOption,
    JsonOption,
    ModelOption,
    RepeatsOption,
    SectionOption,
    SparsityOption,
    ThreadsOption,
    TimeLimitOption,
    TuneOption,
    WidthOption,
    counts,
    shares,
    threads_or_all,
)
from sparcl.cli.display import Notes, progress_bar
from sparcl.files import write_text
from sparcl.report.sections import check_section, replace_section

app = typer.Typer(
    help="Measure our sparse engine beside dense PyTorch on this machine. Run it while nothing else runs.",
    no_args_is_help=True,
)


@app.command()
def train(
    sparsity: SparsityOption = "0.75,0.9,0.95",
    batch: BatchOption = "32",
    image_size: ImageSizeOption = "32",
    width: WidthOption = 64,
    model: ModelOption = "resnet18",
    threads: ThreadsOption = 0,
    repeats: RepeatsOption = 15,
    compiled: CompileOption = True,
    tune: TuneOption = 20,
    time_limit: TimeLimitOption = Limits.seconds,
    into: IntoOption = None,
    section: SectionOption = "train",
    as_json: JsonOption = False,
) -> None:
    """Time a training step: forward, cross-entropy, backward, gradient descent.

    Ours at each sparsity (random masks on the layers that training makes sparse) against the fastest dense float32
    step of PyTorch: contiguous, channels_last, or channels_last with torch.compile. bf16 is measured too, but does not
    count. Each runs in a process of its own: one that crashes, hangs or needs too much memory is left out with a note.

    \b
    sparcl bench train                                  # ResNet-18 on 32x32 images
    sparcl bench train --batch 8,32,128 --sparsity .9   # a row for every combination
    sparcl bench train --no-compile --tune 0 --repeats 3    # a quick look
    sparcl bench train --into docs/performance.md       # write the table into a document
    """
    works = _workloads(model, width, image_size, batch)
    protocol = Protocol(threads_or_all(threads), repeats, compiled, tune, Limits(time_limit))
    _versus("train", works, shares(sparsity), protocol, into, section, as_json)


@app.command()
def infer(
    sparsity: SparsityOption = "0.75,0.9,0.95",
    batch: BatchOption = "1,32",
    image_size: ImageSizeOption = "32",
    width: WidthOption = 64,
    model: ModelOption = "resnet18",
    threads: ThreadsOption = 0,
    repeats: RepeatsOption = 15,
    compiled: CompileOption = True,
    time_limit: TimeLimitOption = Limits.seconds,
    into: IntoOption = None,
    section: SectionOption = "infer",
    as_json: JsonOption = False,
) -> None:
    """Time predictions.

    Ours at each sparsity against PyTorch's fastest in float32: contiguous, channels_last, frozen (traced and optimised
    for inference) or with torch.compile. bf16 and onnxruntime (if there) are measured too, but do not count.

    \b
    sparcl bench infer                                  # one image, and 32 at once
    sparcl bench infer --batch 1 --threads 1            # a small device
    """
    works = _workloads(model, width, image_size, batch)
    protocol = Protocol(threads_or_all(threads), repeats, compiled, limits=Limits(time_limit))
    _versus("infer", works, shares(sparsity), protocol, into, section, as_json)


@app.command()
def layers(
    sparsity: SparsityOption = "0.9",
    batch: Annotated[int, typer.Option(min=1, help="Images in a batch.")] = 32,
    image_size: Annotated[int, typer.Option(min=1, help="Height and width of the images.")] = 32,
    width: WidthOption = 64,
    model: ModelOption = "resnet18",
    threads: ThreadsOption = 0,
    repeats: RepeatsOption = 5,
    time_limit: TimeLimitOption = Limits.seconds,
    as_json: JsonOption = False,
) -> None:
    """Time every convolution alone: forward, data gradient, weight gradient, and their sums.

    Against PyTorch's conv2d in channels_last order. GFLOP/s count what each side computes: ours only active weights.

    \b
    sparcl bench layers
    sparcl bench layers --sparsity .75,.95 --batch 8
    """
    work, notes = Workload(model, width, image_size, batch), Notes()
    protocol = Protocol(threads_or_all(threads), repeats, limits=Limits(time_limit))
    machine = _machine(protocol.threads, notes)
    with progress_bar(as_json) as progress:
        rows = measure_layers(work, shares(sparsity), protocol, notes, progress)
    if as_json:
        sums = [total.to_json() for total in totals(rows)]
        _print_json({"rows": [row.to_json() for row in rows], "totals": sums}, machine, notes)
    else:
        show_layers(rows, str(work))
        show_origin(machine, notes)


@app.command()
def memory(
    sparsity: Annotated[
        float, typer.Option(min=0.0, max=0.999, help="Share of the weights that are not there.")
    ] = 0.95,
    batch: Annotated[int, typer.Option(min=2, help="Images in a batch, and in each replayed batch.")] = 32,
    image_size: Annotated[int, typer.Option(min=1, help="Height and width of the images.")] = 32,
    width: WidthOption = 64,
    model: ModelOption = "resnet18",
    threads: ThreadsOption = 0,
    steps: Annotated[int, typer.Option(min=4, help="Training steps in each process.")] = 10,
    buffer_size: Annotated[int, typer.Option(min=1, help="Images kept for rehearsal.")] = 500,
    time_limit: TimeLimitOption = Limits.seconds,
    into: IntoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the peak of resident memory of whole processes that train DER++ on random images.

    SparCL around DER++ on our engine, without torch; dense DER++ in PyTorch as it is usually written, with three
    forward passes alive before one backward pass; and dense DER++ with our methods on PyTorch.

    \b
    sparcl bench memory
    sparcl bench memory --sparsity .9 --batch 10 --width 20
    """
    check_section(into, "memory")
    work, notes, count = Workload(model, width, image_size, batch), Notes(), threads_or_all(threads)
    machine = _machine(count, notes, says_load=False)
    with progress_bar(as_json) as progress:
        found = measure_memory(work, sparsity, steps, buffer_size, count, Limits(time_limit), notes, progress)
    if into is not None:
        protocol = f"{work}, sparsity {sparsity:g}, {steps} steps, {buffer_size} images in the buffer."
        content = tables.with_origin(tables.memory(found).markdown(), machine, protocol, notes)
        replace_section(into, "memory", content)
    if as_json:
        _print_json(found, machine, notes)
    else:
        show(f"peak of resident memory: {work}", tables.memory(found), words=1)
        show_origin(machine, notes)


@app.command()
def growth(
    sparsity: SparsityOption = "0.5,0.75,0.9,0.95,0.99",
    width: Annotated[str, typer.Option(help="Widths, separated by commas.")] = "16,32,48,64",
    batch: BatchOption = "8,16,32,64,128",
    threads: Annotated[str, typer.Option(help="Threads, separated by commas. Default: from 1 to all cores.")] = "",
    image_size: Annotated[int, typer.Option(min=1, help="Height and width of the images.")] = 32,
    model: ModelOption = "resnet18",
    repeats: RepeatsOption = 7,
    compiled: CompileOption = False,
    time_limit: TimeLimitOption = Limits.seconds,
    into: IntoOption = None,
    as_json: JsonOption = False,
) -> None:
    """Time a training step against sparsity, width, batch and threads, one of them at a time.

    The others stay at sparsity 0.9, width 64, batch 32 and all threads, or the nearest value that is measured.
    torch.compile takes a minute for every point, so it takes part only with --compile.

    \b
    sparcl bench growth --into docs/performance.md      # tables, and a plot beside the document
    sparcl bench growth --width 8,16 --batch 4,8 --repeats 3
    """
    check_section(into, "growth")
    cores = threads_or_all(0)
    every = counts(threads, "--threads", most=512) if threads else list(range(1, cores + 1))
    ranges = growth_of.Ranges(shares(sparsity), counts(width, "--width"), counts(batch, "--batch"), every)
    base, notes = growth_of.GrowthBase.within(ranges, model, image_size), Notes()
    machine = _machine(base.threads, notes)
    with progress_bar(as_json) as progress:
        points = growth_of.measure_growth(base, ranges, repeats, compiled, Limits(time_limit), notes, progress)
    if into is not None:
        plot = into.with_name(f"{into.stem}-growth.svg")
        write_text(plot, tables.growth_plot(points))
        content = tables.growth(points, base, plot.name)
        replace_section(into, "growth", tables.with_origin(content, machine, tables.rounds(repeats), notes))
    if as_json:
        _print_json({"points": [point.to_json() for point in points], "base": base.to_json()}, machine, notes)
    else:
        for factor, table in tables.by_factor(points).items():
            show(f"a training step against {factor} (quartiles)", table)
        show_origin(machine, notes)


def _versus(
    kind: Kind,
    works: list[Workload],
    sparsities: list[float],
    protocol: Protocol,
    into: Path | None,
    section: str,
    as_json: bool,
) -> None:
    check_section(into, section)
    notes, rows = Notes(), list[VersusRow]()
    machine = _machine(protocol.threads, notes)
    with progress_bar(as_json) as progress:
        for work in works:
            rows += measure(kind, work, sparsities, protocol, notes, progress)
    if into is not None:
        how = f"{works[0].model} of width {works[0].width}. {tables.rounds(protocol.rounds)}"
        replace_section(into, section, tables.with_origin(tables.versus(rows).markdown(), machine, how, notes))
    if as_json:
        _print_json({"rows": [row.to_json() for row in rows]}, machine, notes)
    else:
        what = "a training step" if kind == "train" else "predicting a batch"
        show(f"{what}: {works[0].model} of width {works[0].width} (quartiles)", tables.versus(rows))
        show_origin(machine, notes)


def _workloads(model: str, width: int, image_size: str, batch: str) -> list[Workload]:
    sizes, batches = counts(image_size, "--image-size"), counts(batch, "--batch")
    return [Workload(model, width, size, images) for size in sizes for images in batches]


def _machine(threads: int, notes: Notes, says_load: bool = True) -> Machine:
    machine = Machine.describe(threads)
    warning = machine.warning()
    if warning is not None and says_load:
        notes(warning)
    return machine


def _print_json(content: dict[str, Any], machine: Machine, notes: Notes) -> None:
    print(json.dumps({**content, **machine.to_json(), "notes": list(notes)}))
