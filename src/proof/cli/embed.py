"""`proof embed`: pictures to an embeddings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proof.cli import source
from proof.errors import ProofError
from proof.files import check_writable


def embed(
    data: source.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
    ],
    encoder: source.EncoderName = None,
    preprocess: source.Preprocess = None,
    device: source.Device = "auto",
    test_fraction: source.TestFraction = None,
    split_seed: source.SplitSeed = None,
    classes: source.Classes = None,
    templates: source.Templates = None,
    strict: source.Strict = False,
    plugin: source.Plugin = None,
) -> None:
    """Encode pictures and class names into an embeddings file.

    A machine with a GPU encodes, a laptop learns from the file. A picture is encoded once, ever:
    the cache knows it by its content.

    Example:

      proof embed photos/ --encoder ViT-B-16/laion400m_e32 -o photos.safetensors
    """
    if output.suffix != ".safetensors":
        raise ProofError(f"-o {output}: expected a name that ends in .safetensors")
    check_writable(output)
    source.load_plugins(plugin)
    embeddings = source.load(
        data,
        source.PictureOptions(
            encoder, preprocess, device, test_fraction, split_seed, classes, templates, strict
        ),
    )
    embeddings.save(output)
    print(
        f"{output}: {len(embeddings.class_names)} classes, {len(embeddings.train):,} training and "
        f"{len(embeddings.test):,} test pictures, {embeddings.dim} numbers each"
    )
