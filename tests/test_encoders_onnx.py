"""ONNX encoders: a real, tiny model of open_clip is exported once and used in all ways."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from proof import ProofError
from proof.cache import Cache
from proof.cli.encoders import app
from proof.encoders import load_encoder, memo
from proof.encoders.onnx import OnnxEncoder
from proof.pictures.decode import Pixels

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
open_clip = pytest.importorskip("open_clip")

TEXTS = ["a photo of a cat.", "", "they'll SEE Ångström's “naïve” café &amp; 3.14 🐈", "word " * 99]


@pytest.fixture(scope="module")
def exported(tiny_clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from proof.encoders.onnx_export import export

    place = tmp_path_factory.mktemp("exported")
    least = export(f"local-dir:{tiny_clip}", place / "tiny", cache=Cache(place / "cache"))
    assert 0.9999 < least < 1.0001
    return place / "tiny"


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(exported, tmp_path / "tiny"))


@pytest.fixture
def immich(exported: Path, tmp_path: Path) -> Path:
    """The same model in immich's layout."""
    folder = tmp_path / "immich"
    for part in ("visual", "textual"):
        (folder / part).mkdir(parents=True)
    shutil.copy(exported / "image.onnx", folder / "visual" / "model.onnx")
    shutil.copy(exported / "text.onnx", folder / "textual" / "model.onnx")
    ours = json.loads((exported / "encoder.json").read_text())
    write(
        folder / "visual" / "preprocess_cfg.json",
        {"mode": "RGB", "resize_mode": "shortest", "fill_color": 0}
        | {key: ours[key] for key in ("mean", "std", "interpolation")}
        | {"size": ours["size"][0]},
    )
    write(folder / "config.json", {"embed_dim": 32, "text_cfg": {"context_length": 77}})
    tokenizer = json.loads((exported / "tokenizer.json").read_text())
    tokenizer |= {"padding": None, "truncation": None}
    write(folder / "textual" / "tokenizer.json", tokenizer)
    write(folder / "textual" / "tokenizer_config.json", {"pad_token": "!"})
    return folder


def write(file: Path, values: Any) -> None:
    file.write_text(json.dumps(values))


def edit(file: Path, **changes: Any) -> None:
    """Change values of a JSON file; None takes one away."""
    values = json.loads(file.read_text()) | changes
    write(file, {key: value for key, value in values.items() if value is not None})


def opened(folder: Path, **options: Any) -> OnnxEncoder:
    options = {"preprocess": "model", "device": "cpu", "cache": Cache()} | options
    return OnnxEncoder(str(folder), **options)


def pictures(count: int) -> Pixels:
    return np.random.default_rng(1).integers(0, 256, (count, 32, 32, 3), np.uint8)


def change_model(file: Path, change: Callable[[Any], None]) -> None:
    model = onnx.load(str(file))
    change(model)
    onnx.save_model(model, str(file))


def test_an_export_gives_the_vectors_of_the_model(exported: Path, tiny_clip: Path) -> None:
    model = load_encoder(f"local-dir:{tiny_clip}", preprocess="model", device="cpu")
    encoder = load_encoder(f"onnx:{exported}", preprocess="model")
    assert isinstance(encoder, OnnxEncoder)
    assert encoder.name == f"onnx:{exported}"
    assert (encoder.dim, encoder.logit_scale) == (model.dim, model.logit_scale)
    assert encoder.preprocessing == model.preprocessing
    pixels = pictures(5)
    np.testing.assert_allclose(
        encoder.encode_images(pixels), model.encode_images(pixels), atol=1e-4, rtol=1e-4
    )
    np.testing.assert_allclose(
        encoder.encode_texts(TEXTS), model.encode_texts(TEXTS), atol=1e-4, rtol=1e-4
    )
    assert encoder.encode_images(pixels[:0]).shape == (0, 32)
    assert encoder.encode_texts([]).shape == (0, 32)


def test_a_vector_does_not_depend_on_the_others(exported: Path) -> None:
    encoder = opened(exported)
    pixels = pictures(encoder.batch_size + 3)
    together = encoder.encode_images(pixels)
    alone = np.concatenate([encoder.encode_images(pixels[i : i + 1]) for i in range(len(pixels))])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(
    text=st.text(
        st.one_of(
            st.characters(max_codepoint=0x2FF, exclude_categories=["Cn"]),
            st.sampled_from("'’“”&;<>#_-\t\n ςΣИ漢字かな한글🐈½²"),
        ),
        max_size=120,
    )
)
def test_tokens_are_those_of_open_clip(exported: Path, text: str) -> None:
    assert_same_tokens(exported, text)


@pytest.mark.parametrize("text", [*TEXTS, "ΣΊΣΥΦΟΣ İı ſ", "it'S O'Re'lly", "<start_of_text> x"])
def test_tokens_of_hard_texts_are_those_of_open_clip(exported: Path, text: str) -> None:
    assert_same_tokens(exported, text)


def assert_same_tokens(exported: Path, text: str, _made: dict[Path, OnnxEncoder] = {}) -> None:  # noqa: B006
    encoder = _made.setdefault(exported, opened(exported))
    assert encoder.tokenize([text]).tolist() == open_clip.tokenize([text]).tolist()


@pytest.mark.parametrize("clean", ["lower", "whitespace", "canonicalize"])
def test_texts_are_cleaned_as_open_clip_does(folder: Path, clean: str) -> None:
    edit(folder / "encoder.json", clean=clean)
    texts = [*TEXTS, "Snake_case,  UPPER -- punctuation!"]
    theirs = open_clip.SimpleTokenizer(clean=clean)
    assert opened(folder).tokenize(texts).tolist() == theirs(texts).tolist()


def test_it_encodes_without_torch(exported: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = sys.modules["open_clip"] = sys.modules["onnx"] = None
import numpy as np
from proof.encoders import load_encoder
encoder = load_encoder({f"onnx:{exported}"!r}, preprocess="model")
pixels = np.random.default_rng(1).integers(0, 256, (3, 32, 32, 3), np.uint8)
np.save({str(tmp_path / "images.npy")!r}, encoder.encode_images(pixels))
np.save({str(tmp_path / "texts.npy")!r}, encoder.encode_texts({TEXTS!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    encoder = opened(exported)
    np.testing.assert_array_equal(
        np.load(tmp_path / "images.npy"), encoder.encode_images(pictures(3))
    )
    np.testing.assert_array_equal(np.load(tmp_path / "texts.npy"), encoder.encode_texts(TEXTS))


def test_immichs_layout_gives_the_same_vectors(immich: Path, exported: Path) -> None:
    ours, theirs = opened(exported), opened(immich)
    assert theirs.preprocessing == ours.preprocessing
    assert theirs.logit_scale == 100.0
    np.testing.assert_array_equal(
        theirs.encode_images(pictures(3)), ours.encode_images(pictures(3))
    )
    np.testing.assert_array_equal(theirs.encode_texts(TEXTS), ours.encode_texts(TEXTS))
    edit(immich / "config.json", logit_scale=50)
    assert opened(immich).logit_scale == 50.0


def test_immichs_descriptions_are_not_guessed(immich: Path) -> None:
    edit(immich / "config.json", init_logit_bias=-10)
    with pytest.raises(ProofError, match=r"config\.json.*add \"logit_scale\""):
        opened(immich)
    edit(immich / "config.json", init_logit_bias=None)
    write(immich / "textual" / "tokenizer_config.json", {"pad_token": {"content": "<nothing>"}})
    with pytest.raises(ProofError, match="pad token '<nothing>' is not in"):
        opened(immich).encode_texts(["a"])
    text_config = {"tokenizer_kwargs": {"strip_sep_token": True}}
    edit(immich / "config.json", text_cfg=text_config)
    with pytest.raises(ProofError, match="strip_sep_token"):
        opened(immich)
    (immich / "visual" / "preprocess_cfg.json").unlink()
    with pytest.raises(ProofError, match=r"write a file '.*preprocess_cfg\.json'.*resize_mode"):
        opened(immich)


def test_a_missing_file_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ProofError, match=r"expected a file image\.onnx there.*visual/model\.onnx"):
        opened(tmp_path / "nowhere")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ProofError, match=r"tokenizer is needed.*tokenizer\.json"):
        opened(folder).encode_texts(["a"])
    (folder / "text.onnx").unlink()
    encoder = opened(folder)
    assert encoder.encode_images(pictures(1)).shape == (1, 32)
    with pytest.raises(ProofError, match=r"no file for texts: expected '.*text\.onnx'"):
        encoder.encode_texts(["a"])


def test_a_missing_description_is_an_error_that_says_what_to_write(folder: Path) -> None:
    edit(folder / "encoder.json", mean=None, logit_scale=None)
    with pytest.raises(ProofError, match=r"does not say mean, logit_scale: .*\"logit_scale\": 100"):
        opened(folder)
    (folder / "encoder.json").unlink()
    with pytest.raises(ProofError, match=r"write a file '.*encoder\.json'.*\"mode\": \"crop\""):
        opened(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "fit"}, "'fit': expected one of squash, crop, pad"),
        ({"interpolation": "nearest"}, "expected one of bicubic, bilinear"),
        ({"mean": [0.5]}, "not enough values"),
        ({"std": [0.5, 0, 0.5]}, "0: expected a number above 0"),
        ({"size": "large"}, "too many values"),
        ({"logit_scale": "high"}, "high"),
        ({"clean": "upper"}, "expected one of lower, whitespace, canonicalize"),
        ({"size": [64, 64]}, r"takes image: float \(n, 3, 32, 32\): expected .*\(n, 3, 64, 64\)"),
    ],
)
def test_a_wrong_description_is_named(folder: Path, changes: Any, message: str) -> None:
    edit(folder / "encoder.json", **changes)
    with pytest.raises(ProofError, match=message) as error:
        opened(folder)
    assert str(folder) in str(error.value)


def test_a_wrong_context_length_is_named(folder: Path) -> None:
    edit(folder / "encoder.json", context_length=64)
    with pytest.raises(ProofError, match=r"takes tokens: int32 \(n, 77\): expected .*\(n, 64\)"):
        opened(folder).encode_texts(["a"])


def test_a_device_is_the_one_asked_for_or_an_error(exported: Path) -> None:
    with pytest.raises(ProofError, match="device 'mps': an ONNX encoder runs on auto, cpu, cuda"):
        opened(exported, device="mps")
    assert opened(exported, device="auto").encode_images(pictures(1)).shape == (1, 32)
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        encoder = opened(exported, device="cuda")  # what is in the cache needs no GPU
        with pytest.raises(ProofError, match="onnxruntime cannot use the GPU"):
            encoder.encode_images(pictures(1))


@pytest.mark.parametrize("damage", [b"", b"not a model at all", None])
def test_a_damaged_file_is_named_in_one_line(
    folder: Path, damage: bytes | None, capfd: pytest.CaptureFixture[str]
) -> None:
    file = folder / "image.onnx"
    file.write_bytes(file.read_bytes()[:100_000] if damage is None else damage)
    with pytest.raises(ProofError, match=r"image\.onnx' cannot be used: ") as error:
        opened(folder)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_damaged_tokenizer_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ProofError, match=r"tokenizer\.json' cannot be read"):
        opened(folder).encode_texts(["a"])


def test_a_model_of_another_kind_is_refused(folder: Path) -> None:
    shutil.copy(folder / "text.onnx", folder / "image.onnx")
    with pytest.raises(
        ProofError, match=r"image\.onnx' takes tokens: int32 \(n, 77\): expected one"
    ):
        opened(folder)


@pytest.mark.parametrize("size", [1, 4])
def test_a_fixed_batch_is_filled_up(folder: Path, exported: Path, size: int) -> None:
    def fix(model: Any) -> None:
        for end in (*model.graph.input, *model.graph.output):
            end.type.tensor_type.shape.dim[0].dim_value = size

    change_model(folder / "image.onnx", fix)
    change_model(folder / "text.onnx", fix)
    fixed, free = opened(folder), opened(exported)
    np.testing.assert_allclose(
        fixed.encode_images(pictures(6)), free.encode_images(pictures(6)), atol=1e-5
    )
    np.testing.assert_allclose(
        fixed.encode_texts(TEXTS[:3]), free.encode_texts(TEXTS[:3]), atol=1e-5
    )


def test_a_model_that_scales_the_numbers_itself_gets_the_pixels(folder: Path) -> None:
    """As immich's newer files: uint8 (n, height, width, 3)."""
    expected = opened(folder).encode_images(pictures(3))
    values = json.loads((folder / "encoder.json").read_text())

    def scale(model: Any) -> None:
        graph, helper = model.graph, onnx.helper
        for name in ("mean", "std"):
            numbers = 255 * np.array(values[name], np.float32).reshape(3, 1, 1)
            graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
        nodes = [
            helper.make_node("Cast", ["pixels"], ["float"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Transpose", ["float"], ["planes"], perm=[0, 3, 1, 2]),
            helper.make_node("Sub", ["planes", "mean"], ["centred"]),
            helper.make_node("Div", ["centred", "std"], ["image"]),
        ]
        for node in reversed(nodes):
            graph.node.insert(0, node)
        del graph.input[:]
        graph.input.append(
            helper.make_tensor_value_info("pixels", onnx.TensorProto.UINT8, ["n", 32, 32, 3])
        )

    change_model(folder / "image.onnx", scale)
    np.testing.assert_allclose(opened(folder).encode_images(pictures(3)), expected, atol=1e-4)


def test_half_precision_is_taken_and_given_as_it_is(folder: Path) -> None:
    expected = opened(folder).encode_images(pictures(3))

    def halve(model: Any) -> None:
        graph, helper = model.graph, onnx.helper
        graph.node.insert(
            0, helper.make_node("Cast", ["half"], ["image"], to=onnx.TensorProto.FLOAT)
        )
        graph.node.append(
            helper.make_node("Cast", ["vectors"], ["small"], to=onnx.TensorProto.FLOAT16)
        )
        del graph.input[:], graph.output[:]
        kind = onnx.TensorProto.FLOAT16
        graph.input.append(helper.make_tensor_value_info("half", kind, ["n", 3, "h", "w"]))
        graph.output.append(helper.make_tensor_value_info("small", kind, ["n", "d"]))

    change_model(folder / "image.onnx", halve)
    encoder = opened(folder)
    assert encoder.dim == 32  # found by running it: the file does not say
    vectors = encoder.encode_images(pictures(3))
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, rtol=0.02, atol=0.02)


def test_a_model_quantised_as_it_runs_gets_one_row_at_a_time(folder: Path) -> None:
    """Its scales come from the whole batch, so a vector would depend on the others."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    file = folder / "image.onnx"
    quantize_dynamic(file, folder / "small.onnx", weight_type=QuantType.QUInt8)
    (folder / "small.onnx").replace(file)
    encoder, pixels = opened(folder), pictures(4)
    pixels[1:] //= 8
    together = encoder.encode_images(pixels)
    for index in range(4):
        np.testing.assert_array_equal(
            encoder.encode_images(pixels[index : index + 1])[0], together[index]
        )


def test_the_fingerprint_is_of_all_files_and_is_remembered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {opened(folder).fingerprint}

    def forbid(*_: Any) -> str:
        raise AssertionError("hashed again")

    with monkeypatch.context() as patch:
        patch.setattr(memo, "hash_files", forbid)
        patch.setitem(sys.modules, "onnxruntime", None)  # nothing to encode: not even needed
        assert {opened(folder).fingerprint} == seen

    def nudge(model: Any) -> None:
        weight = next(w for w in model.graph.initializer if len(w.dims) > 1)
        values = onnx.numpy_helper.to_array(weight).copy()
        values.flat[0] += 1e-3
        weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))

    for file in ("image.onnx", "text.onnx"):
        change_model(folder / file, nudge)
        seen.add(opened(folder).fingerprint)
    edit(folder / "encoder.json", logit_scale=7.0)
    assert opened(folder).logit_scale == 7.0
    seen.add(opened(folder).fingerprint)
    (folder / "text.onnx").unlink()
    seen.add(opened(folder).fingerprint)
    assert len(seen) == 5


def test_folders_of_one_relative_name_are_not_mistaken(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "tiny"
    shutil.copytree(folder, other)
    edit(other / "encoder.json", logit_scale=3.0)
    monkeypatch.chdir(tmp_path)
    first = opened(Path("tiny"))
    monkeypatch.chdir(other.parent)
    assert opened(Path("tiny")).fingerprint != first.fingerprint


def test_files_that_change_under_an_encoder_are_an_error(folder: Path) -> None:
    opened(folder)
    encoder = opened(folder)
    edit(folder / "encoder.json", logit_scale=7.0)
    with pytest.raises(ProofError, match="were changed in the meantime"):
        encoder.encode_images(pictures(1))


def test_weights_beside_the_model_count(folder: Path) -> None:
    """A model over 2 GB is written with a file for each weight; they become one."""
    from proof.encoders.onnx_export import gather

    expected = opened(folder).encode_images(pictures(2))
    scattered = folder / "scattered" / "image.onnx"
    scattered.parent.mkdir()
    onnx.save_model(
        onnx.load(str(folder / "image.onnx")),
        str(scattered),
        save_as_external_data=True,
        all_tensors_to_one_file=False,
        size_threshold=0,
    )
    gather(scattered, folder / "image.onnx")
    assert (folder / "image.onnx.data").stat().st_size > 100_000
    first = opened(folder)
    np.testing.assert_array_equal(first.encode_images(pictures(2)), expected)
    data = bytearray((folder / "image.onnx.data").read_bytes())
    data[1000] ^= 1
    (folder / "image.onnx.data").write_bytes(data)
    assert opened(folder).fingerprint != first.fingerprint
    (folder / "image.onnx.data").unlink()
    with pytest.raises(ProofError, match=r"image\.onnx' cannot be used: "):
        opened(folder)


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers", "ftfy"])
def test_a_missing_package_is_named_with_its_extra(
    exported: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ProofError, match=rf"needs the package {module} \(.+\): pip install 'proof-vlm\[onnx\]'$"
    ):
        opened(exported, cache=Cache(exported.parent / module)).encode_texts(["a"])


def test_an_export_is_whole_or_not_at_all(
    tiny_clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proof.encoders import onnx_export

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(ProofError, match="is there already"):
        onnx_export.export(f"local-dir:{tiny_clip}", tmp_path / "full")
    monkeypatch.setattr(onnx_export, "_least_cosine", lambda a, b: 0.99)
    with pytest.raises(ProofError, match=r"a cosine of 0\.990000 is not above"):
        onnx_export.export(f"local-dir:{tiny_clip}", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_an_export_needs_a_model_of_open_clip_with_its_own_tokenizer(
    exported: Path, tmp_path: Path
) -> None:
    from proof.encoders import onnx_export

    with pytest.raises(ProofError, match="expected a model of open_clip"):
        onnx_export.export(f"onnx:{exported}", tmp_path / "again")
    with pytest.raises(ProofError, match="its tokenizer is object, and only CLIP's own"):
        onnx_export._write_tokenizer("SigLIP", object(), tmp_path / "tokenizer.json")


def test_the_command_lists_shows_and_exports(tiny_clip: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["--grep", "vit-b-16/laion400m"])
    assert listed.output.split() == ["ViT-B-16/laion400m_e31", "ViT-B-16/laion400m_e32"]
    assert len(runner.invoke(app, []).output.splitlines()) > 50
    nothing = runner.invoke(app, ["--grep", "no such"])
    assert "no encoder has this" in str(nothing.exception)
    place = tmp_path / "tiny"
    done = runner.invoke(app, ["export", f"local-dir:{tiny_clip}", "-o", str(place)])
    assert done.exit_code == 0, done.exception
    assert f"use it as onnx:{place}" in done.output
    shown = runner.invoke(app, ["show", f"onnx:{place}"]).output
    assert "32 numbers" in shown
    assert "crop 32x32 bicubic" in shown
    assert opened(place).fingerprint in shown
