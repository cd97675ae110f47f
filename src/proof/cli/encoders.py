"""`proof encoders`: what there is to encode with, and export to ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proof.errors import ProofError

app = typer.Typer()  # its help is that of `names`, with the examples
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="ARCHITECTURE/TAG of open_clip, ARCHITECTURE/FILE, hf-hub:..., local-dir:..., "
        "onnx:FOLDER.",
    ),
]


@app.callback(invoke_without_command=True)
def names(
    context: typer.Context,
    grep: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only names with this in them.")
    ] = None,
) -> None:
    """List encoders, show one, export one to ONNX.

    Examples:

      proof encoders --grep ViT-B-16

      proof encoders show ViT-B-16/laion400m_e32

      proof encoders export ViT-B-16/laion400m_e32 -o vit-b-16
    """
    if context.invoked_subcommand is not None:
        if grep is not None:
            raise ProofError(f"--grep {grep} is for the list: leave out the command after it")
        return
    from proof.encoders import list_encoders

    found = [name for name in list_encoders() if (grep or "").lower() in name.lower()]
    if not found:
        raise ProofError(f"--grep {grep}: no encoder has this in its name")
    print("\n".join(found))


@app.command()
def show(name: Name) -> None:
    """Print what is known of an encoder. Its weights are loaded the first time.

    Example:

      proof encoders show ViT-B-16/laion400m_e32
    """
    from proof.encoders import load_encoder

    encoder = load_encoder(name, preprocess="model")
    preprocessing = encoder.preprocessing
    for title, value in {
        "encoder": encoder.name,
        "vectors": f"{encoder.dim} numbers",
        "logit scale": f"{encoder.logit_scale:.4g}",
        "pictures": preprocessing,
        "mean": ", ".join(f"{value:.4g}" for value in preprocessing.mean),
        "deviation": ", ".join(f"{value:.4g}" for value in preprocessing.std),
        "fingerprint": encoder.fingerprint,
    }.items():
        print(f"{title:<12} {value}")


@app.command()
def export(
    name: Name,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write.")
    ],
) -> None:
    """Write an encoder of open_clip as ONNX files, to encode where there is no torch.

    The files are compared to the model before the folder appears.

    Example:

      proof encoders export ViT-B-16/laion400m_e32 -o vit-b-16
    """
    from proof.encoders.onnx_export import export as write

    least = write(name, output)
    print(f"{output}: as near to the model as a cosine of {least:.7f}; use it as onnx:{output}")
