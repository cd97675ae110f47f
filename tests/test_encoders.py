"""open_clip's models, loaded for real from every layout that they are published in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file

from conftest import TINY, make_pictures, save_clip
from proof import ProofError
from proof.cache import Cache
from proof.encoders import (
    DEFAULT,
    Encoder,
    Facts,
    list_encoders,
    load_encoder,
    register_encoder,
)  # fmt: skip
from proof.encoding import encode_pictures, encode_texts
from simple_encoder import Means

open_clip = pytest.importorskip("open_clip")
WEIGHTS = "open_clip_model.safetensors"


@pytest.fixture
def tiny_arch(tmp_path: Path) -> str:
    """The tiny model as an architecture that open_clip knows by name."""
    (tmp_path / "tiny-test.json").write_text(json.dumps(TINY))
    open_clip.add_model_config(tmp_path / "tiny-test.json")
    return "tiny-test"


def vectors(encoder: Encoder) -> np.ndarray:
    size = (4, *encoder.preprocessing.size, 3)
    return encoder.encode_images(np.random.default_rng(0).integers(0, 256, size, np.uint8))


def test_it_gives_what_open_clip_gives(tiny_clip: Path, tmp_path: Path) -> None:
    model, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{tiny_clip}")
    model.eval()
    paths = make_pictures(tmp_path, 10, (50, 37))
    encoder = load_encoder(f"local-dir:{tiny_clip}", preprocess="model", device="cpu")
    ours = torch.from_numpy(encode_pictures(paths, encoder).vectors).float()
    texts = ["a photo of a cat.", "a dog", ""]
    with torch.inference_mode():
        theirs = model.encode_image(torch.stack([preprocess(Image.open(p)) for p in paths]))
        words = model.encode_text(open_clip.get_tokenizer(f"local-dir:{tiny_clip}")(texts))
    assert F.cosine_similarity(ours, theirs).min() > 0.9995
    assert (ours.norm(dim=1) / theirs.norm(dim=1) - 1).abs().max() < 0.01
    encoded = torch.from_numpy(encode_texts(texts, encoder)).float()
    assert F.cosine_similarity(encoded, words).min() > 0.9999
    assert encoder.dim == 32
    assert encoder.logit_scale == pytest.approx(model.logit_scale.exp().item())
    assert str(encoder.preprocessing) == "crop 32x32 bicubic"


def test_a_picture_does_not_depend_on_its_batch_mates(tiny_clip: Path) -> None:
    encoder = load_encoder(f"local-dir:{tiny_clip}", device="cpu")
    pixels = np.random.default_rng(0).integers(0, 256, (50, 32, 32, 3), np.uint8)
    together = encoder.encode_images(pixels)
    alone = np.concatenate([encoder.encode_images(pixels[i : i + 1]) for i in range(50)])
    assert np.abs(together - alone).max() < 1e-4 * np.abs(together).max()


def test_every_layout_gives_the_same_model(tiny_clip: Path, tiny_arch: str, tmp_path: Path) -> None:
    """Safetensors and .bin in a folder, a bare state dict, a training checkpoint."""
    state = load_file(tiny_clip / WEIGHTS)
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(tiny_clip / "open_clip_config.json", folder)
    torch.save(state, folder / "open_clip_pytorch_model.bin")
    torch.save(state, tmp_path / "bare.pt")
    training = {"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state.items()}}
    torch.save(training, tmp_path / "epoch_3.pt")
    save_file(state, tmp_path / "weights.safetensors")
    names = [f"local-dir:{tiny_clip}", f"local-dir:{folder}"]
    files = ("bare.pt", "epoch_3.pt", "weights.safetensors")
    names += [f"{tiny_arch}/{tmp_path / name}" for name in files]
    encoders = [load_encoder(name, device="cpu") for name in names]
    assert np.allclose(vectors(encoders[0]), vectors(encoders[1]))
    for encoder in encoders[3:]:
        assert encoder.fingerprint == encoders[2].fingerprint
        assert np.allclose(vectors(encoder), vectors(encoders[0]))


def test_a_relative_file(tiny_clip: Path, tiny_arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny_clip)
    assert load_encoder(f"{tiny_arch}/{WEIGHTS}").dim == 32


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model in the Hugging Face cache, as a download leaves it; no network."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model = tmp_path / "hub" / "models--someone--tiny"
    snapshot = model / "snapshots" / "0123456789012345678901234567890123456789"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(snapshot.name)
    return snapshot


def test_from_the_hub(tiny_clip: Path, hub: Path) -> None:
    for name in ("open_clip_config.json", WEIGHTS):
        shutil.copy(tiny_clip / name, hub)
    encoder = load_encoder("hf-hub:someone/tiny", device="cpu")
    assert encoder.fingerprint == load_encoder(f"local-dir:{tiny_clip}").fingerprint
    assert vectors(encoder).shape == (4, 32)


def test_a_tag_brings_its_own_activation(
    tiny_clip: Path, tiny_arch: str, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenAI's weights need QuickGELU; open_clip itself would only warn."""
    shutil.copy(tiny_clip / WEIGHTS, hub)
    tags = {"quick": {"hf_hub": "someone/tiny/", "quick_gelu": True},
            "plain": {"hf_hub": "someone/tiny/"}}  # fmt: skip
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, tiny_arch, tags)
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny-test-quickgelu", tags)
    quick, plain = (load_encoder(f"{tiny_arch}/{tag}", device="cpu") for tag in tags)
    assert not np.allclose(vectors(quick), vectors(plain))
    assert quick.fingerprint != plain.fingerprint
    assert f"{tiny_arch}/quick" in list_encoders()
    (hub.parent / "tiny-test-quickgelu.json").write_text(json.dumps({**TINY, "quick_gelu": True}))
    open_clip.add_model_config(hub.parent / "tiny-test-quickgelu.json")
    named = load_encoder("tiny-test-quickgelu/quick", device="cpu")
    assert named.fingerprint == quick.fingerprint
    with pytest.raises(ProofError, match="without QuickGELU: use tiny-test/plain"):
        load_encoder("tiny-test-quickgelu/plain")


@pytest.mark.filterwarnings("ignore")  # of torch, on tracing
def test_openai_archive(tiny_arch: str, tmp_path: Path) -> None:
    """A TorchScript archive, as OpenAI publishes its weights."""
    torch.manual_seed(0)
    vision = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8}
    text = {
        "context_length": 77,
        "vocab_size": 49408,
        "width": 64,
        "heads": 1,
        "layers": 2,
        "no_causal_mask": True,
    }  # else a buffer that OpenAI's archives do not have
    model = open_clip.CLIP(32, vision, text, quick_gelu=True).eval()
    example = (torch.zeros(1, 3, 32, 32), torch.zeros(1, 77, dtype=torch.long))
    with torch.no_grad():
        torch.jit.trace(model, example, check_trace=False).save(str(tmp_path / "ViT-tiny.pt"))
    encoder = load_encoder(f"{tiny_arch}/{tmp_path / 'ViT-tiny.pt'}", device="cpu")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    scale = encoder.preprocessing
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (scale.mean, scale.std))
    with torch.inference_mode():
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255
        theirs = model.encode_image((images - mean) / std)
    ours = torch.from_numpy(encoder.encode_images(pixels))
    assert F.cosine_similarity(ours, theirs).min() > 0.9999


def test_never_a_random_model(tiny_clip: Path, tiny_arch: str, hub: Path, tmp_path: Path) -> None:
    """Wherever weights are missing there is an error that says which."""
    bare = tmp_path / "no-weights"
    bare.mkdir()
    shutil.copy(tiny_clip / "open_clip_config.json", bare)
    shutil.copy(tiny_clip / "open_clip_config.json", hub)
    for name, expected in {
        "ViT-B-16": "which weights.*laion400m_e32",
        "ViT-B-16/": "neither a file nor one of the tags",
        "ViT-B-16/laion400m": "neither a file nor one of the tags.*laion400m_e32",
        "ViT-B-16/weights.pt": "neither a file",
        "ViT-Z-99/openai": "no architecture 'ViT-Z-99'",
        DEFAULT: "cannot be downloaded.*vit_base_patch16_clip_224.laion400m_e32.*ViT-B-16/PATH",
        f"local-dir:{bare}": "no weights in",
        f"local-dir:{tmp_path}": "open_clip_config.json",
        "hf-hub:someone/tiny": "open_clip_model.safetensors.*local-dir:FOLDER",
        "hf-hub:someone/else": "local-dir:FOLDER",
        "flax:model": "no kind 'flax:'",
    }.items():
        with pytest.raises(ProofError, match=expected):
            load_encoder(name)


def test_weights_that_do_not_fit_are_refused(
    tiny_clip: Path, tiny_arch: str, tmp_path: Path
) -> None:
    state = load_file(tiny_clip / WEIGHTS)
    del state["visual.proj"]
    torch.save(state, tmp_path / "partial.pt")
    with pytest.raises(ProofError, match=r"partial\.pt"):
        load_encoder(f"{tiny_arch}/{tmp_path / 'partial.pt'}")
    (tmp_path / "words.pt").write_text("no weights")
    with pytest.raises(ProofError, match=r"words\.pt"):
        load_encoder(f"{tiny_arch}/{tmp_path / 'words.pt'}")


class Trap:
    """What a hostile checkpoint does when it is unpickled without care."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("trapped"),)


def test_a_checkpoint_runs_no_code(
    tiny_arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Trap()}, tmp_path / "hostile.pt")
    with pytest.raises(ProofError):
        load_encoder(f"{tiny_arch}/{tmp_path / 'hostile.pt'}")
    assert not (tmp_path / "trapped").exists()


def test_known_weights_are_not_loaded_to_be_recognised(tiny_clip: Path, tmp_path: Path) -> None:
    paths = make_pictures(tmp_path, 3)
    name = f"local-dir:{tiny_clip}"
    first = load_encoder(name, device="cpu")
    encoded = encode_pictures(paths, first)
    second = load_encoder(name, device="cpu")
    again = encode_pictures(paths, second)
    assert np.array_equal(encoded.vectors, again.vectors)
    assert second._loaded is None  # type: ignore[attr-defined]
    assert (second.fingerprint, second.dim, second.logit_scale, second.preprocessing) == (
        first.fingerprint, first.dim, first.logit_scale, first.preprocessing,
    )  # fmt: skip


def test_other_weights_are_another_encoder(tiny_clip: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_clip, tmp_path / "model")
    name = f"local-dir:{tmp_path / 'model'}"
    before = load_encoder(name)
    waiting = load_encoder(name)  # has not loaded its weights yet
    save_clip(open_clip, tmp_path / "model", seed=1)
    after = load_encoder(name)
    assert before.fingerprint != after.fingerprint
    with pytest.raises(ProofError, match="others than those that were noted"):
        vectors(waiting)


def test_a_relative_path_means_another_model_in_another_folder(
    tiny_clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prints = []
    for seed in (1, 2):
        folder = tmp_path / str(seed) / "model"
        folder.mkdir(parents=True)
        save_clip(open_clip, folder, seed)
        monkeypatch.chdir(folder.parent)
        prints.append(load_encoder("local-dir:model").fingerprint)
    assert prints[0] != prints[1]


def test_a_checkpoint_that_comes_first_is_noticed(tiny_clip: Path, tmp_path: Path) -> None:
    """open_clip prefers .safetensors to .bin, also where the former comes later."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_clip(open_clip, folder, seed=5)
    state = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    torch.save(state, folder / "open_clip_pytorch_model.bin")
    before = load_encoder(f"local-dir:{folder}").fingerprint
    save_clip(open_clip, folder, seed=6)
    assert load_encoder(f"local-dir:{folder}").fingerprint != before


def test_a_folder_named_like_a_tag_is_not_the_tag(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openai").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProofError, match="cannot be downloaded"):
        load_encoder("ViT-B-16/openai")


def test_weights_for_another_size_are_refused(tiny_clip: Path, tmp_path: Path) -> None:
    larger = {**TINY, "vision_cfg": {**TINY["vision_cfg"], "image_size": 64}}  # type: ignore[dict-item]
    (tmp_path / "tiny-64.json").write_text(json.dumps(larger))
    open_clip.add_model_config(tmp_path / "tiny-64.json")
    with pytest.raises(ProofError, match="another size"):
        load_encoder(f"tiny-64/{tiny_clip / WEIGHTS}")


def test_too_large_a_batch_is_cut_until_it_fits(
    tiny_clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_encoder(f"local-dir:{tiny_clip}", device="cpu")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), np.uint8)
    whole = encoder.encode_images(pixels)
    encoder.batch_size, plain = 32, type(encoder).forward  # type: ignore[attr-defined]

    def small(self: Encoder, batch: torch.Tensor) -> torch.Tensor:
        if len(batch) > 5:
            raise torch.OutOfMemoryError
        result: torch.Tensor = plain(self, batch)
        return result

    monkeypatch.setattr(type(encoder), "forward", small)
    assert np.allclose(encoder.encode_images(pixels), whole, atol=1e-4)
    monkeypatch.setattr(type(encoder), "forward", lambda self, batch: small(self, [0] * 6))
    with pytest.raises(ProofError, match="does not fit"):
        encoder.encode_images(pixels)


def test_an_encoder_from_outside(tmp_path: Path) -> None:
    @register_encoder("means")
    def open_means(name: str, *, preprocess: str, device: str, cache: Cache) -> Encoder:
        assert (name, preprocess, device) == ("all", "model", "cpu")
        return Means()

    encoder = load_encoder("means:all", preprocess="model", device="cpu")
    assert encode_pictures(make_pictures(tmp_path, 5), encoder).vectors.shape == (5, 12)


def test_facts_are_what_an_encoder_tells() -> None:
    facts = Means().preprocessing
    assert isinstance(Means(), Encoder)
    assert facts.mode == "squash"
    assert Facts.__dataclass_fields__.keys() == {
        "fingerprint", "dim", "logit_scale", "preprocessing",
    }  # fmt: skip


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_half_precision_keeps_the_direction(tiny_clip: Path) -> None:
    name = f"local-dir:{tiny_clip}"
    cpu, gpu = (load_encoder(name, device=device) for device in ("cpu", "cuda"))
    a, b = (torch.from_numpy(vectors(encoder)) for encoder in (cpu, gpu))
    assert F.cosine_similarity(a, b).min() > 0.9999
    assert gpu._half  # type: ignore[attr-defined]
