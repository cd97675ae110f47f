"""Pairs of pictures and texts, and their matching score while classes are learned."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from conftest import make_data, make_pictures
from proof import Budget, Embeddings, ProofError, Run, Stream, create, list_methods
from proof.cli.bench import bench
from proof.cli.source import PictureOptions, open_pairs, pairs_behind
from proof.datasets.tables import read_captions
from proof.embed import embed_pairs
from proof.pairs import Pairs
from proof.projections import project_all
from proof.records import read_records
from proof.reports.figures import _zero_shot
from proof.reports.groups import settings_of
from proof.reports.page import page
from simple_encoder import Means

BUDGET = Budget(per_class=4)
CLIP_ITSELF = [
    name
    for name in list_methods()
    if name not in ("proof", "proof-residual", "proof-reference", "oracle")
]


def some_pairs(count: int = 30, d: int = 16) -> Pairs:
    generator = torch.Generator().manual_seed(3)
    images, texts = torch.randn(2, count, d, generator=generator)
    return Pairs(7 * images, texts + images, "some")


def finish(run: Run) -> Run:
    while not run.done:
        run.step()
    return run


def test_pairs_come_back_as_they_were_saved(tmp_path: Path) -> None:
    pairs = Pairs(torch.eye(4).half(), torch.eye(4).half(), "four", {"encoder": "none"})
    pairs.save(tmp_path / "four.safetensors")
    again = Pairs.load(tmp_path / "four.safetensors")
    assert str(again) == str(pairs)
    assert again.metadata == pairs.metadata
    assert again.fingerprint != Pairs(torch.eye(4), torch.eye(4)).fingerprint


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"image": torch.eye(3)}, "no tensor 'text': a file of pairs holds image, text"),
        ({"image": torch.eye(3), "text": torch.eye(4)}, r"\(3, 3\) and 'text' \(4, 4\)"),
        ({"image": torch.ones(0, 3), "text": torch.ones(0, 3)}, "one row for each pair"),
        ({"image": torch.eye(3), "text": torch.eye(3) / 0}, "'text' has NaN or infinite"),
        ({"image": torch.zeros(2, 3), "text": torch.ones(2, 3)}, "'image' is all zeros in 2"),
        ({"image": torch.eye(3).long(), "text": torch.eye(3)}, "expected floating point"),
    ],
)
def test_what_are_no_pairs_is_refused(
    tensors: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    save_file(tensors, tmp_path / "odd.safetensors")
    with pytest.raises(ProofError, match=message):
        Pairs.load(tmp_path / "odd.safetensors")
    with pytest.raises(ProofError, match=r"no pairs at '.*': expected a .safetensors file"):
        Pairs.load(tmp_path / "nowhere.safetensors")


def test_pairs_behind_another_encoder_are_refused(stream: Stream) -> None:
    with pytest.raises(ProofError, match="have 5 numbers each, but 'made' has 16"):
        Run("zero-shot", stream, device="cpu", pairs=some_pairs(d=5))
    told = Pairs(torch.ones(1, 16), torch.ones(1, 16), "told", {"fingerprint": "a"})
    Run("zero-shot", stream, device="cpu", pairs=told)
    stream.data.metadata["fingerprint"] = "b"
    with pytest.raises(ProofError, match="with other weights"):
        Run("zero-shot", stream, device="cpu", pairs=told)


@pytest.mark.parametrize("method", CLIP_ITSELF)
def test_a_method_that_does_not_project_has_the_score_of_clip(method: str, stream: Stream) -> None:
    learner, pairs = create(method, budget=BUDGET), some_pairs()
    learner.learn(stream.task(0))
    clip = F.cosine_similarity(pairs.images, pairs.texts)
    torch.testing.assert_close(learner.match_pairs(pairs.images, pairs.texts), clip)


@pytest.mark.parametrize("method", ["proof", "proof-residual", "proof-reference", "oracle"])
def test_projections_change_the_score_of_each_pair_by_itself(method: str, stream: Stream) -> None:
    learner, pairs = create(method, budget=BUDGET), some_pairs()
    clip = F.cosine_similarity(pairs.images, pairs.texts)
    torch.testing.assert_close(learner.match_pairs(pairs.images, pairs.texts), clip)
    learner.learn(stream.task(0))
    learner.learn(stream.task(1))
    together = learner.match_pairs(pairs.images, pairs.texts)
    assert (together - clip).abs().max() > 1e-3
    alone = learner.match_pairs(pairs.images[7:8], 5 * pairs.texts[7:8])
    torch.testing.assert_close(alone, together[7:8])


def test_proof_matches_what_all_its_projections_give(stream: Stream) -> None:
    learner, pairs = create("proof", budget=BUDGET), some_pairs()
    learner.learn(stream.task(0))
    learner.learn(stream.task(1))
    images = project_all(learner.image_projections, F.normalize(pairs.images, dim=1))
    texts = project_all(learner.text_projections, F.normalize(pairs.texts, dim=1))
    wanted = F.cosine_similarity(images, texts)
    torch.testing.assert_close(learner.match_pairs(pairs.images, pairs.texts), wanted)


def test_the_score_is_recorded_after_each_task(stream: Stream, tmp_path: Path) -> None:
    pairs = some_pairs()
    plain = Run("proof", stream, budget=BUDGET, device="cpu", epochs=1)
    run = Run("proof", stream, budget=BUDGET, device="cpu", epochs=1, pairs=pairs)
    assert run.key != plain.key
    run.step()
    run.save(tmp_path / "checkpoint")
    resumed = Run("proof", stream, budget=BUDGET, device="cpu", epochs=1, pairs=pairs)
    resumed.resume(tmp_path / "checkpoint")
    record = finish(resumed).record()
    assert record["pairs"] == str(pairs)
    scores = record["zero_shot"]["matching"]
    assert len(scores) == 3
    last = resumed.learner.match_pairs(pairs.images, pairs.texts).mean()
    assert scores[-1] == pytest.approx(100 * float(last), abs=1e-3)
    without = finish(plain).record()
    assert without["pairs"] is None
    assert without["curve"] == record["curve"], "measuring changes nothing"
    assert "matching" not in without["zero_shot"]


def test_a_report_shows_the_score_where_it_is(stream: Stream) -> None:
    runs = [
        finish(Run(method, stream, device="cpu", pairs=pairs)).record()
        for method, pairs in (("zero-shot", some_pairs()), ("simplecil", None))
    ]
    settings = settings_of(runs)
    assert settings[0].zero_shot["matching"] == "Matching score"
    assert "The matching score is the mean cosine" in page(settings)
    assert "matching score" not in page(settings_of(runs[1:]))
    panels = _zero_shot(settings[0], ["zero-shot", "simplecil"]).axes
    assert [len(axes.lines) for axes in panels] == [2, 2, 2, 1]
    assert panels[-1].get_title(loc="left") == "Matching score"


def test_runs_with_and_without_pairs_are_not_two_seeds(stream: Stream) -> None:
    runs = [
        finish(Run("simplecil", stream, device="cpu", pairs=pairs)).record()
        for pairs in (some_pairs(), None)
    ]
    [setting] = settings_of(runs)
    assert len(setting.entries) == 2


def write_captions(path: Path, pictures: list[Path], head: str = "path,text") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head.split(","))
        for number, picture in enumerate(pictures):
            writer.writerow([picture.name, f"a photo, {'very ' * number}good"])
    return path


def test_a_broken_picture_is_left_out_with_its_text(tmp_path: Path) -> None:
    pictures = make_pictures(tmp_path, 5)
    pictures[2].write_text("no picture")
    captions = read_captions(write_captions(tmp_path / "pairs.csv", pictures, "image,caption"))
    assert captions.texts[:2] == ["a photo, good", "a photo, very good"]
    pairs, [broken] = embed_pairs(captions, Means())
    assert broken.picture == str(pictures[2])
    lengths = [len(captions.texts[row]) for row in (0, 1, 3, 4)]
    assert pairs.texts[:, 0].tolist() == lengths
    assert len(pairs) == 4
    assert pairs.name == "pairs"
    with pytest.raises(ProofError, match="none of their pictures can be read"):
        embed_pairs(captions._replace(pictures=[str(pictures[2])]), Means())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\na.jpg,cup\n", "no column for the text.*expected the columns path,text"),
        ("path,text\na.jpg,\n", "line 2: the text is empty"),
        ("path,text\n", "no picture in it: expected the columns path,text"),
        ("path,text,caption\na.jpg,b,c\n", None),
    ],
)
def test_a_table_of_pairs_is_checked(text: str, message: str | None, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    if message:
        with pytest.raises(ProofError, match=message):
            open_pairs(tmp_path / "pairs.csv")
    else:
        assert read_captions(tmp_path / "pairs.csv").texts == ["b"]


def test_pictures_are_encoded_as_those_of_the_data_were(tiny_clip: Path, tmp_path: Path) -> None:
    from proof.encoders import load_encoder

    captions = open_pairs(write_captions(tmp_path / "pairs.csv", make_pictures(tmp_path, 3)))
    made = make_data(d=32)
    with pytest.raises(ProofError, match="'made' does not say which encoder it is behind"):
        pairs_behind(made, captions, PictureOptions())
    for preprocess in ("squash", "model"):
        encoder = load_encoder(f"local-dir:{tiny_clip}", preprocess=preprocess, device="cpu")
        told = {
            "encoder": encoder.name,
            "fingerprint": encoder.fingerprint,
            "preprocess": str(encoder.preprocessing),
        }
        data = Embeddings(made.train, made.test, made.texts, "behind", told)
        pairs = pairs_behind(data, captions, PictureOptions(device="cpu"))
        assert pairs.metadata["preprocess"] == told["preprocess"]
        wanted, _ = embed_pairs(captions, encoder)
        assert pairs.fingerprint == wanted.fingerprint
    data.metadata["preprocess"] = "by hand"
    with pytest.raises(ProofError, match="prepared its pictures as 'by hand', which is neither"):
        pairs_behind(data, captions, PictureOptions(device="cpu"))


def test_bench_measures_pairs(tmp_path: Path) -> None:
    make_data().save(tmp_path / "made.safetensors")
    some_pairs().save(tmp_path / "some.safetensors")
    bench(
        [str(tmp_path / "made.safetensors")],
        methods="zero-shot,simplecil",
        protocol="B0-Inc4",
        pairs=tmp_path / "some.safetensors",
        json_file=tmp_path / "records.json",
    )
    first, second = read_records([tmp_path / "records.json"])
    assert first["pairs"] == second["pairs"] == str(some_pairs())
    assert first["zero_shot"]["matching"] == second["zero_shot"]["matching"]
    some_pairs(d=5).save(tmp_path / "short.safetensors")
    with pytest.raises(ProofError, match="expected pairs behind the same encoder"):
        bench([str(tmp_path / "made.safetensors")], pairs=tmp_path / "short.safetensors")
