"""`proof ablate`: the paper's ablations by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proof.ablations import ABLATIONS, Ablation, find_ablation, task_cuts
from proof.cli import runs, source
from proof.errors import ProofError
from proof.files import check_writable

if TYPE_CHECKING:
    from proof.reports.ablations import Result
    from proof.streams import Stream

_ASKED = "\n\n".join(f"  {name}: {one.asks}" for name, one in ABLATIONS.items())
_HELP = f"""
Ablations:\n
{_ASKED}

Examples:\n
  proof ablate components cifar100-small --seeds 0,1,2 -o ablations\n
  proof ablate task-sizes cifar100-small --protocols B0-Inc5,B0-Inc20,B50-Inc10\n
  proof ablate backbone photos/ --encoder ViT-B-16/openai --encoder ViT-B-16/laion400m_e32
"""


def ablate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which: see the list above.")],
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA...", help=f"{source.DATA_HELP} Several for backbone alone."),
    ],
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            "--protocols",
            help="B0-Inc10: ten classes a task. Several, with commas, for task-sizes.",
            show_default="as bench; for task-sizes all that divide the classes",
        ),
    ] = None,
    exemplars: runs.Exemplars = "20/class",
    order_seed: runs.OrderSeed = 1993,
    seeds: runs.Seeds = "0",
    device: source.Device = "auto",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write NAME.md, NAME.csv, NAME.png and the records here; a run whose record is "
            "here already is not done again.",
        ),
    ] = None,
    jobs: runs.Jobs = None,
    plugin: source.Plugin = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="For pictures: as for bench. For backbone it may be repeated.",
            show_default="ViT-B-16/laion400m_e32",
        ),
    ] = None,
    preprocess: source.Preprocess = None,
    test_fraction: source.TestFraction = None,
    split_seed: source.SplitSeed = None,
    classes: source.Classes = None,
    templates: source.Templates = None,
    strict: source.Strict = False,
) -> None:
    """Run an ablation of the paper: a table, and with -o one figure."""
    from proof.exemplars import Budget
    from proof.grid import Plan
    from proof.records import RecordStore
    from proof.reports.ablations import Result, print_result

    ablation = find_ablation(name)
    cuts = runs.read_protocols(protocol)
    encoders: list[str | None] = [*encoder] if encoder else [None]
    _check(name, ablation, data, encoders, cuts)
    if output:
        check_writable(output / f"{name}.png")
    source.load_plugins(plugin)
    budget, training_seeds = Budget.parse(exemplars), runs.read_list(seeds, "--seeds", int)
    pictures = source.PictureOptions(
        None, preprocess, device, test_fraction, split_seed, classes, templates, strict
    )
    streams = _streams(ablation, data, encoders, pictures, cuts, order_seed)
    plans = [
        Plan(method, stream, seed, budget, device)
        for stream in streams.values()
        for method in ablation.methods.values()
        for seed in training_seeds
    ]
    kept = f"the same command goes on from '{output}'" if output else "nothing was kept: use -o DIR"
    store = RecordStore(output) if output else None
    records = runs.run_plans(plans, store, jobs, plugin or [], kept)
    result = Result.of(name, ablation, list(streams), records)
    print()
    print_result(result)
    if output:
        _write(result, output)


def _check(
    name: str,
    ablation: Ablation,
    data: list[str],
    encoders: list[str | None],
    cuts: list[str | list[int]],
) -> None:
    """Only what an ablation varies may be given more than once."""
    runs.check_once(data, f"DATA {' '.join(data)}")
    runs.check_once(encoders, f"--encoder {' '.join(filter(None, encoders))}")
    if ablation.varies == "data":
        if (len(data) > 1) == (len(encoders) > 1):
            raise ProofError(
                f"ablate {name} compares encoders: expected several embeddings files of the same "
                "data, or pictures and --encoder more than once"
            )
    elif len(data) > 1 or len(encoders) > 1:
        raise ProofError(
            f"ablate {name} takes one DATA and one --encoder: `proof ablate backbone` compares "
            "several encoders, `proof bench` several data"
        )
    if ablation.varies != "protocol" and len(cuts) > 1:
        raise ProofError(
            f"ablate {name} takes one --protocol: `proof ablate task-sizes` compares several"
        )


def _streams(
    ablation: Ablation,
    data: list[str],
    encoders: list[str | None],
    pictures: source.PictureOptions,
    asked: list[str | list[int]],
    order_seed: int,
) -> dict[str, Stream]:
    """The streams, each by its place on the axis."""
    from proof.streams import Stream, task_sizes

    def cuts(classes: int, own: str | None) -> list[str | list[int]]:
        if ablation.varies == "protocol":
            return asked or task_cuts(classes)
        return asked or [own or "B0-Inc10"]

    def check(classes: int, own: str | None) -> None:
        for cut in cuts(classes, own):
            task_sizes(cut, classes)

    stems = [Path(one).stem for one in data]
    files = dict(zip(data, stems if len(set(stems)) == len(stems) else data, strict=True))
    streams: dict[str, Stream] = {}
    for one in data:
        for behind in encoders:
            embeddings = source.load(one, replace(pictures, encoder=behind), check)
            for cut in cuts(len(embeddings.class_names), embeddings.metadata.get("protocol")):
                stream = Stream.of(embeddings, cut, order_seed)
                places = {
                    "data": behind if behind and len(encoders) > 1 else files[one],
                    "protocol": _sizes(stream),
                    "method": one,
                }
                streams[places[ablation.varies]] = stream
    first = next(iter(streams.values()))
    for place, stream in streams.items():
        if stream.order != first.order:
            raise ProofError(
                f"'{place}' has other classes than '{next(iter(streams))}': expected the same data "
                "behind another encoder"
            )
    return streams


def _sizes(stream: Stream) -> str:
    """The sizes of the tasks, short."""
    few, most = min(stream.sizes), max(stream.sizes)
    return stream.protocol if stream.protocol.startswith("B") else f"{few} to {most} each"


def _write(result: Result, folder: Path) -> None:
    from proof.files import replacing
    from proof.reports.ablations import csv, draw, markdown

    for suffix, text in (("md", markdown(result)), ("csv", csv(result))):
        with replacing(folder / f"{result.name}.{suffix}") as partial:
            partial.write_text(text, encoding="utf-8")
    draw(result, folder / f"{result.name}.png")
    print(f"{result.name}.md, .csv, .png and the records written to {folder}")


ablate.__doc__ = f"{ablate.__doc__}\n\n{_HELP}"
