"""`proof bench`: methods over a stream, a table and the curves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from proof.cli import runs, source
from proof.errors import ProofError
from proof.files import check_writable

_EXAMPLE = """
Example:\n
  proof bench cifar100-small --methods zero-shot,simplecil,proof --exemplars 20/class\n
  proof bench photos/ --encoder ViT-B-16/laion400m_e32 --protocol B0-Inc5\n
  proof bench *.safetensors --protocol B0-Inc10,B50-Inc10 --seeds 0,1,2 --out runs --resume\n
\n
An option of a method stands behind a colon: --methods proof,proof:context=PW:prompt_length=5
"""


def bench(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help=source.DATA_HELP)],
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas; `proof methods` lists them.")
    ] = "zero-shot,simplecil,proof",
    protocol: Annotated[
        str | None,
        typer.Option(
            help="B0-Inc10: ten classes a task. B50-Inc10: fifty, then tens. Several: with commas."
        ),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Task sizes instead of a protocol: 12,13,10,...")
    ] = None,
    exemplars: runs.Exemplars = "20/class",
    order_seed: runs.OrderSeed = 1993,
    seeds: runs.Seeds = "0",
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs a task.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    device: source.Device = "auto",
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Pictures with texts, from outside DATA, whose matching score is measured too: "
            "image and text embeddings in a .safetensors file, or a CSV file of path,text.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the records as a JSON list."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the curves: .png, .svg or .pdf.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep checkpoints and records here.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with what is in --out; what is done is not run again."
        ),
    ] = False,
    jobs: runs.Jobs = None,
    track: Annotated[
        str | None,
        typer.Option(
            metavar="TRACKER", help="Also send to tensorboard, wandb, mlflow or trackio; an extra."
        ),
    ] = None,
    plugin: source.Plugin = None,
    encoder: source.EncoderName = None,
    preprocess: source.Preprocess = None,
    test_fraction: source.TestFraction = None,
    split_seed: source.SplitSeed = None,
    classes: source.Classes = None,
    templates: source.Templates = None,
    strict: source.Strict = False,
) -> None:
    """Run methods over a stream of classes and print a table and the curves."""
    from proof.exemplars import Budget
    from proof.grid import Plan
    from proof.records import RecordStore, write_json
    from proof.reports import curves, style, tables
    from proof.streams import Stream, task_sizes
    from proof.tracking import start_tracking

    if resume and out is None:
        raise ProofError("--resume goes on with a folder: name it with --out DIR")
    if protocol and sizes:
        raise ProofError(f"--protocol {protocol} and --sizes {sizes}: give one of the two")
    if plot:
        style.check_format(plot)
    for target in (json_file, plot, out / "record" if out else None):
        if target:
            check_writable(target)
    source.load_plugins(plugin)
    tracked = start_tracking(track) if track else None
    runs.check_once(data, f"DATA {' '.join(data)}")
    specs = runs.read_list(methods, "--methods", str)
    overrides = {"epochs": epochs, "lr": lr}
    options = {spec: _options(spec, overrides) for spec in specs}
    pictures = source.PictureOptions(
        encoder, preprocess, device, test_fraction, split_seed, classes, templates, strict
    )
    budget = Budget.parse(exemplars)
    training_seeds = runs.read_list(seeds, "--seeds", int)
    for name, value in overrides.items():
        if value is not None and not any(name in given for given in options.values()):
            raise ProofError(f"--{name} {value}: none of {', '.join(specs)} is trained by epochs")
    wanted: list[str | list[int]] = runs.read_protocols(protocol)
    if sizes:
        wanted = [runs.read_list(sizes, "--sizes", int)]

    def cuts(own: str | None) -> list[str | list[int]]:
        """What is asked for, else the protocol that a known data set has of its own."""
        return wanted or [own or "B0-Inc10"]

    def check(classes: int, own: str | None) -> None:
        """Before hours of encoding, that the classes can be cut into tasks."""
        for cut in cuts(own):
            task_sizes(cut, classes)

    opened = source.open_pairs(pairs) if pairs else None
    plans = []
    for name in data:
        embeddings = source.load(name, pictures, check)
        matched = source.pairs_behind(embeddings, opened, pictures) if opened else None
        for cut in cuts(embeddings.metadata.get("protocol")):
            stream = Stream.of(embeddings, cut, order_seed)
            plans += [
                Plan(spec, stream, seed, budget, device, options[spec], matched)
                for spec in specs
                for seed in training_seeds
            ]
    store = RecordStore(out) if out else None
    if store and not resume and any(store.holds(plan.run()) for plan in plans):
        raise ProofError(
            f"'{out}' holds some of these runs already: add --resume, or choose another folder"
        )
    kept = "nothing was kept: use --out DIR"
    if out:
        kept = f"run the same command with --resume to go on from '{out}'"
    records = runs.run_plans(plans, store, jobs, plugin or [], kept, tracked)
    print()
    tables.print_results(records)
    if json_file:
        write_json(records, json_file)
    if plot:
        curves.draw(records, plot)
        print(f"curves drawn to {plot}")


def _options(spec: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Those of the overrides that the method has and its own spec does not set."""
    from proof.methods import create

    learner = create(spec)
    own = {part.partition("=")[0] for part in spec.split(":")[1:]}
    return {
        name: value
        for name, value in overrides.items()
        if value is not None and hasattr(learner.options, name) and name not in own
    }


bench.__doc__ = f"{bench.__doc__}\n\n{_EXAMPLE}"
