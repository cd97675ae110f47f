"""From JPEG files to stored embeddings: the whole way beside its two halves, in one run.

    python benchmarks/encoding.py FOLDER [--encoder NAME] [--device cuda] [--pictures 2000]

Measures decoding on all cores alone, the model's bare forward pass on pixels that are on the
device already, and `encode_pictures` from files to the cache; then a second run over the same
files. Without --encoder it makes a ViT-B-16 with random weights: as fast as a trained one. Where
FOLDER has fewer pictures than asked for, copies with a few more bytes at the end stand in.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from proof.cache import Cache
from proof.encoders import Encoder, Facts, Vectors, load_encoder
from proof.encoders.openclip import OpenClipEncoder
from proof.encoding import encode_pictures
from proof.pictures.decode import Pixels
from proof.pictures.preprocessing import Preprocessing
from proof.pictures.readers import Readers, cores


def gather(folder: Path, count: int, copies: Path) -> list[Path]:
    """`count` JPEG files of different content."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    rng = np.random.default_rng(0)
    found = [found[index] for index in rng.permutation(len(found))[:count]]
    more = []
    for number, path in zip(range(count - len(found)), itertools.cycle(found), strict=False):
        copy = copies / f"{number:06}.jpg"
        copy.write_bytes(path.read_bytes() + number.to_bytes(4, "big"))
        more.append(copy)
    return found + more


def random_model(folder: Path) -> str:
    """ViT-B-16 with random weights, in the layout of open_clip."""
    import open_clip
    from safetensors.torch import save_file

    config = open_clip.get_model_config("ViT-B-16")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    model = open_clip.create_model("ViT-B-16")
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return f"local-dir:{folder}"


class NoModel(Encoder):
    """Costs nothing: what is left is decoding, and what the pipeline itself takes."""

    batch_size, streams = 256, 2

    def __init__(self) -> None:
        clip = Preprocessing((224, 224), "crop", mean=(0, 0, 0), std=(1, 1, 1))
        super().__init__("none", Facts("0" * 64, 512, 100.0, clip))

    def encode_images(self, pixels: Pixels) -> Vectors:
        return np.ones((len(pixels), 512), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        raise NotImplementedError


def decoding(paths: list[Path], encoder: Encoder) -> float:
    """Pictures a second, of all cores, with nothing else to do."""
    readers = Readers(encoder.preprocessing, 32 * cores(), len(paths))
    for reader in readers.all:
        reader.read([])  # the process is up
    chunks = iter([list(map(str, paths[at : at + 16])) for at in range(0, len(paths), 16)])
    lock = threading.Lock()

    def work(number: int) -> None:
        reader = readers.all[number]
        while True:
            with lock:
                chunk = next(chunks, None)
            if chunk is None:
                return
            reader.read(chunk)
            reader.decode([(index, 16 * number + index) for index in range(len(chunk))])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(readers.all))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    readers.close()
    return len(paths) / seconds


def forward(encoder: OpenClipEncoder, count: int, device: str) -> float:
    """Pictures a second through the model alone."""
    size = encoder.batch_size
    pixels = np.random.default_rng(0).integers(
        0, 256, (size, *encoder.preprocessing.size, 3), np.uint8
    )
    encoder.encode_images(pixels)  # warm, and the precision chosen
    batch = torch.from_numpy(pixels).to(device)
    batches = max(1, count // size)
    with torch.inference_mode():
        encoder.forward(batch)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(batches):
            vectors = encoder.forward(batch)
        vectors.cpu()
    return batches * size / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder")
    parser.add_argument("--no-model", action="store_true", help="decoding and the pipeline alone")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("cache", "model", "copies"):
            (Path(temporary) / name).mkdir()
        cache = Cache(Path(temporary) / "cache")
        paths = gather(arguments.folder, arguments.pictures, Path(temporary) / "copies")
        time.sleep(2.1)  # a file that has just been written is read again the next time
        encoder: Encoder = NoModel()
        if not arguments.no_model:
            name = arguments.encoder or random_model(Path(temporary) / "model")
            encoder = load_encoder(name, device=arguments.device, cache=cache)
        encoder.prepare()
        kilobytes = sum(path.stat().st_size for path in paths) / len(paths) / 1000
        print(
            f"{len(paths):,} pictures of {kilobytes:.0f} kB, {cores()} cores, {arguments.device}, "
            f"{encoder.preprocessing}, batch {encoder.batch_size}"
        )
        for _ in range(arguments.repeat):
            cache.remove(cache.spaces())
            bare = math.inf
            if isinstance(encoder, OpenClipEncoder):
                bare = forward(encoder, len(paths), arguments.device)
            before = decoding(paths, encoder)
            began = time.perf_counter()
            first = encode_pictures(paths, encoder, cache=cache)
            whole = time.perf_counter() - began
            decoded = (before + decoding(paths, encoder)) / 2  # the speed of machines drifts
            began = time.perf_counter()
            second = encode_pictures(paths, encoder, cache=cache)
            again = time.perf_counter() - began
            assert second.fresh == 0 < first.fresh
            slower = min(bare, decoded)
            print(f"decoding on all cores alone    {decoded:9,.1f} pictures/s, before and after")
            print(f"bare forward pass alone        {bare:9,.1f} pictures/s")
            print(
                f"files to stored embeddings     {len(paths) / whole:9,.1f} pictures/s, "
                f"{len(paths) / whole / slower:.0%} of the slower half"
            )
            print(
                f"second run                     {len(paths) / again:9,.1f} pictures/s, "
                f"{whole / again:,.0f} times as fast",
                flush=True,
            )


if __name__ == "__main__":
    main()
