"""A classifier learns, answers, forgets, merges and is kept, from pictures and from embeddings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import proof
from conftest import make_data, make_pictures
from proof import Classifier, Embeddings, ProofError, Task, create, list_methods
from proof.methods.sums import SumsLearner
from proof.models import read_header, steps
from proof.models.pictures import vectors_of
from simple_encoder import FACTS, Means

DATA = make_data()
NAMES = DATA.class_names
IMAGES = DATA.test.images


def images_of(*names: str) -> dict[str, torch.Tensor]:
    return {name: DATA.train.of((name,)).images for name in names}


def texts_of(*names: str) -> dict[str, torch.Tensor]:
    return dict(zip(names, DATA.texts_of(names), strict=True))


def taught(method: str = "simplecil", classes: int = 6, **options: Any) -> Classifier:
    """Three classes in each lesson."""
    classifier = Classifier(None, method=method, device="cpu", **options)
    for start in range(0, classes, 3):
        names = NAMES[start : start + 3]
        classifier.learn(images_of(*names), texts=texts_of(*names))
    return classifier


def same(one: Classifier, two: Classifier) -> bool:
    return one.classes == two.classes and np.array_equal(
        one.predict_proba(IMAGES), two.predict_proba(IMAGES)
    )


def saved(classifier: Classifier, path: Path) -> Classifier:
    classifier.calibrate()
    classifier.save(path)
    return proof.load(path, device="cpu")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kitchen.proof"


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """Pictures of two colours, with a little noise, in class folders."""
    rng = np.random.default_rng(0)
    for name, colour in (("dark_red", (160, 20, 20)), ("blue", (20, 20, 200))):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(8):
            noise = rng.integers(0, 40, (20, 20, 3)) + np.array(colour)
            Image.fromarray(noise.astype(np.uint8)).save(folder / f"{number}.png")
    return tmp_path / "photos"


# --- Learning ------------------------------------------------------------------------------------


def test_lessons_bring_new_classes_and_refine_known_ones() -> None:
    classifier = Classifier(None, method="simplecil")
    first = classifier.learn(images_of("class 0", "class 1"))
    assert (first.new, first.refined, first.named, first.pictures) == (
        ["class 0", "class 1"], [], [], 40,
    )  # fmt: skip
    mixed = classifier.learn(
        {"class 2": IMAGES[:3], "class 0": IMAGES[3:5], "teapot": []},
        texts={"teapot": torch.ones(16)},
    )
    assert (mixed.new, mixed.refined, mixed.named) == (["class 2"], ["class 0"], ["teapot"])
    assert classifier.classes == ["class 0", "class 1", "class 2", "teapot"]
    assert classifier.pictures == {"class 0": 22, "class 1": 20, "class 2": 3, "teapot": 0}
    later = classifier.learn({"teapot": IMAGES[5:6]})
    assert (later.new, classifier.classes[-1]) == (["teapot"], "teapot")


def test_it_is_the_learner_taught_the_same_in_half_precision() -> None:
    learner = create("simplecil")
    for start in (0, 3):
        names = NAMES[start : start + 3]
        images = [vectors_of(image) for image in images_of(*names).values()]
        labels = [name for name in names for _ in range(20)]
        learner.learn(Task(names, DATA.texts_of(names), torch.cat(images), labels))
    found = taught().predict(IMAGES).tolist()
    assert found == learner.predict(vectors_of(IMAGES))


def test_a_class_is_known_by_its_name_alone() -> None:
    names = NAMES[:4]
    classifier = Classifier(None, method="zero-shot")
    classifier.learn({name: [] for name in names}, texts=texts_of(*names))
    test = DATA.test.of(names)
    assert classifier.score(test.images, test.labels) > 0.5


def test_without_an_encoder_the_mean_picture_stands_for_a_name() -> None:
    classifier = Classifier(None, method="zero-shot")
    classifier.learn(images_of(*NAMES[:4]))
    test = DATA.test.of(NAMES[:4])
    assert classifier.score(test.images, test.labels) > 0.9
    with pytest.raises(ProofError, match="'teapot' has no pictures, and without an encoder"):
        classifier.learn({"teapot": []})


def test_a_lesson_says_what_was_odd() -> None:
    classifier = taught("proof")
    again = images_of("class 0")["class 0"][:4]
    lesson = classifier.learn({"class 0": torch.cat([again, again]), "class 9": again[:1]})
    assert lesson.repeated == 8
    assert lesson.contested == [("class 0", "class 9")]
    assert classifier.pictures["class 0"] == 28


def test_a_generator_may_give_the_pictures() -> None:
    classifier = Classifier(None, method="simplecil")
    lesson = classifier.learn({name: (image for image in IMAGES[:3]) for name in ("a", "b")})
    assert lesson.pictures == 6
    assert len(classifier.predict(image for image in IMAGES[:5])) == 5


def test_progress_is_told(colours: Path) -> None:
    told: list[tuple[str, int, int]] = []
    classifier = Classifier(Means(), method="proof", device="cpu")
    classifier.learn(colours, progress=lambda *what: told.append(what))
    classifier.predict(IMAGES[:1, :12], progress=lambda *what: told.append(what))
    assert {what for what, _, _ in told} == {"pictures", "teaching", "calibrating"}
    assert ("pictures", 16, 16) in told


# --- Pictures ------------------------------------------------------------------------------------


def test_pictures_may_be_paths_bytes_arrays_or_pils(colours: Path) -> None:
    classifier = Classifier(Means(), method="simplecil")
    lesson = classifier.learn(colours)
    assert (lesson.new, lesson.pictures) == (["blue", "dark red"], 16)
    file = colours / "blue" / "0.png"
    image = Image.open(file)
    forms = [file, str(file), file.read_bytes(), np.asarray(image), image]
    one = [classifier.predict(form) for form in forms]
    assert {said.label for said in one} == {"blue"}
    assert len({round(said.score, 6) for said in one}) == 1
    assert [said.label for said in classifier.predict(forms)] == ["blue"] * 5
    assert len(classifier.predict(np.stack([np.asarray(image)] * 2))) == 2
    assert classifier.predict(classifier.embed(file).vectors).tolist() == ["blue"]


def test_a_class_may_be_given_as_a_folder(colours: Path) -> None:
    classifier = Classifier(Means(), method="simplecil")
    lesson = classifier.learn({"red": colours / "dark_red", "blue": str(colours / "blue")})
    assert (lesson.new, lesson.pictures) == (["red", "blue"], 16)
    (colours / "empty").mkdir()
    with pytest.raises(ProofError, match="given for 'x', holds no pictures"):
        classifier.learn({"x": colours / "empty"})


def test_texts_are_the_template_with_the_readable_name() -> None:
    encoder = Means()
    classifier = Classifier(encoder, method="zero-shot", template="see a {} here")
    classifier.learn({"moka_pot": []})
    length = len("see a moka pot here")
    assert classifier._known.texts["moka_pot"].tolist() == pytest.approx([12**-0.5] * 12, abs=1e-3)
    assert encoder.texts == 1
    Classifier(encoder, method="zero-shot", template="see a {} here").learn({"moka_pot": []})
    assert encoder.texts == 1, f"a text of {length} letters is in the cache"


def test_broken_pictures_are_listed_and_the_others_learned(colours: Path) -> None:
    (colours / "blue" / "0.png").write_bytes(b"no picture")
    classifier = Classifier(Means(), method="simplecil")
    lesson = classifier.learn(colours)
    assert lesson.pictures == 15
    assert [Path(picture).name for picture, _ in lesson.broken] == ["0.png"]
    with pytest.raises(
        ProofError, match=r"none of the 2 pictures of 'x' can be read, first .*0\.png"
    ):
        classifier.learn({"x": [colours / "blue" / "0.png", colours / "missing.png"]})
    assert classifier.classes == ["blue", "dark red"]
    with pytest.raises(ProofError, match=r"missing\.png"):
        classifier.predict(colours / "missing.png")


def test_an_encoder_is_loaded_only_for_pictures_and_names(colours: Path, path: Path) -> None:
    Classifier(Means(), method="simplecil").learn(colours)
    classifier = Classifier(Means(), method="simplecil")
    classifier.learn(colours)
    classifier.save(path)
    found = proof.load(path)  # there is no encoder 'means' to be found
    found.rename("blue", "navy")
    found.forget("dark red")
    assert found.card()["classes"][0]["name"] == "navy"
    assert found.predict(np.ones(12)).label == "navy"
    found.save(path)
    with pytest.raises(ProofError, match="means"):
        proof.load(path).predict(colours / "blue" / "0.png")
    assert proof.load(path, encoder=Means()).predict(colours / "blue" / "0.png").label == "navy"


def test_other_weights_are_refused(colours: Path, path: Path) -> None:
    classifier = Classifier(Means(), method="simplecil")
    classifier.learn(colours)
    classifier.save(path)
    other = Means(replace(FACTS, fingerprint="0" * 64))
    with pytest.raises(ProofError, match=r"fingerprint ffff.*fingerprint 0000.*do not mix"):
        proof.load(path, encoder=other)
    cropped = Means()
    cropped.preprocessing = FACTS.preprocessing
    with pytest.raises(ProofError, match=r"preprocessing squash 16x16.*preprocessing crop 16x16"):
        proof.load(path, encoder=cropped)
    with pytest.raises(ProofError, match="do not mix"):
        classifier.merge(_of(other, colours))


def _of(encoder: Means, colours: Path) -> Classifier:
    classifier = Classifier(encoder, method="simplecil")
    classifier.learn(colours)
    return classifier


def test_embeddings_of_another_encoder_are_refused() -> None:
    marked = replace(DATA, metadata={"encoder": "one", "fingerprint": "1" * 64})
    classifier = Classifier(None, method="simplecil")
    classifier.learn(marked)
    assert classifier.evaluate(marked).accuracy > 90
    other = replace(DATA, metadata={"encoder": "two", "fingerprint": "2" * 64})
    for ask in (classifier.learn, classifier.evaluate):
        with pytest.raises(ProofError, match="do not mix"):
            ask(other)


# --- What is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lesson", "message"),
    [
        ({}, "nothing to learn"),
        ({"": np.ones((1, 16))}, "label '' is empty"),
        ({" \n": np.ones((1, 16))}, "is empty"),
        ({3: np.ones((1, 16))}, "label 3 is int: expected a string"),
        ({"\ud800": np.ones((1, 16))}, "not Unicode"),
        ({"a": np.ones((2, 5))}, "X has 5 features, but Classifier is expecting 16"),
        ({"a": np.ones((2, 16)), "b": np.ones((2, 5))}, "'a' have 16 numbers and those of 'b' 5"),
        ({"a": np.full((2, 16), np.nan)}, "2 of 2 embeddings have NaN or infinite"),
        ({"a": np.zeros((2, 16))}, "2 of 2 embeddings are all zeros"),
        ({"a": np.full((1, 16), 1e9)}, "beyond 65504"),
        ({"a": np.ones((2, 2, 16))}, r"shape \(2, 2, 16\): expected \(n, d\)"),
        ({"a": ["x.jpg"]}, "1 pictures that must be encoded, and the classifier has no encoder"),
        ({"a": ["x.jpg", np.ones(16)]}, "embeddings and 'x.jpg' in one list"),
        ({"a": [object()]}, "object among pictures"),
        ({"a": 3}, "int given as pictures"),
        ({"a": {"x": 1}}, "dict given as pictures"),
        (["x.jpg"], "list given: expected a dictionary"),
        ("nowhere/", "'nowhere/' is neither a file or folder nor a known data set"),
        ("nowhere.safetensors", "no embeddings at"),
    ],
)
def test_what_cannot_be_learned_is_refused(lesson: Any, message: str) -> None:
    classifier = taught()
    before = classifier.predict_proba(IMAGES)
    with pytest.raises(ProofError, match=message):
        classifier.learn(lesson)
    assert np.array_equal(classifier.predict_proba(IMAGES), before)
    assert len(classifier.log) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "prof"}, "no method 'prof'"),
        ({"method": 3}, "method=3: expected str"),
        ({"exemplars": "many"}, "exemplars 'many'"),
        ({"template": "a photo"}, "needs one {}"),
        ({"preprocess": "shrink"}, "preprocess='shrink'"),
        ({"device": "abacus"}, "device 'abacus'"),
        ({"seed": -1}, "seed -1"),
        ({"encoder": 3}, "encoder=3"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ProofError, match=message):
        Classifier(**{"encoder": None, **arguments})


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(ProofError, match="no class was learned yet"):
        Classifier(None).predict(np.ones(16))
    classifier = taught()
    for wrong, message in [
        (lambda: classifier.predict(np.ones(5)), "X has 5 features"),
        (lambda: classifier.predict("x.jpg"), "has no encoder"),
        (lambda: classifier.predict(IMAGES, reject=1.5), "reject=1.5: expected a share"),
        (lambda: classifier.explain(IMAGES[:2]), "2 pictures to explain"),
        (lambda: classifier.forget("cup"), "no class 'cup' to forget: it has 'class 0', "),
        (lambda: classifier.rename("cup", "mug"), "no class 'cup' to rename"),
        (lambda: classifier.rename("class 0", "class 1"), "there is a class 'class 1' already"),
        (lambda: classifier.rename("class 0", " "), "is empty"),
        (lambda: classifier.merge(classifier), "with itself"),
        (lambda: classifier.merge(taught("zero-shot")), "must be the same method"),
        (lambda: classifier.evaluate({"cup": IMAGES[:2]}), "none of the 1 labels"),
        (lambda: classifier.learn({"cup": IMAGES[:2]}, texts={"mug": IMAGES[0]}), "'mug', which"),
        (lambda: classifier.learn({"cup": IMAGES[:2]}, texts={"cup": [1, 2]}), "lengths, 2 for"),
    ]:
        with pytest.raises(ProofError, match=message):
            wrong()
    assert classifier.predict([]) == []


# --- Answers -------------------------------------------------------------------------------------


def test_an_array_gives_labels_and_a_list_gives_predictions() -> None:
    classifier = taught()
    labels = classifier.predict(IMAGES)
    assert isinstance(labels, np.ndarray)
    predictions = classifier.predict(list(IMAGES))
    assert [said.label for said in predictions] == labels.tolist()
    said = classifier.predict(IMAGES[0])
    assert said.label == labels[0]
    assert said.score == pytest.approx(predictions[0].score)
    named = [(said.label, said.score), *said.runners_up]
    shares = classifier.predict_proba(IMAGES[:1])[0]
    assert [share for _, share in named] == pytest.approx(np.sort(shares)[::-1][:5].tolist())
    assert named == sorted(named, key=lambda pair: -pair[1])


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("proof", {"projected", "visual", "textual"}),
        ("analytic:features=40", {"pictures", "names"}),
    ],
)
def test_an_explanation_says_what_each_matching_voted(method: str, parts: set[str]) -> None:
    classifier = taught(method)
    found = classifier.explain(IMAGES[0])
    assert set(found.votes) == parts
    assert found.classes[0] == found.prediction.label == classifier.predict(IMAGES[0]).label
    totals = [sum(vote[place] for vote in found.votes.values()) for place in range(5)]
    assert totals == sorted(totals, reverse=True), "their sum decides"
    assert found.prediction.label in str(found)
    assert all(part in str(found) for part in parts)


def test_a_part_that_says_nothing_chooses_nothing() -> None:
    classifier = Classifier(None, method="analytic:features=40", device="cpu")
    same = dict.fromkeys(("class 0", "class 1"), torch.ones(16))
    classifier.learn({name: DATA.train.of((name,)).images for name in same}, texts=same)
    assert classifier.explain(IMAGES[0]).choices["names"] == "-"


def test_an_evaluation_counts_and_names_errors() -> None:
    classifier = taught(classes=9)
    found = classifier.evaluate(DATA)
    known = DATA.test.of(NAMES[:9])
    assert found.pictures == len(known) == sum(found.counts.values())
    assert found.accuracy == pytest.approx(100 * classifier.score(known.images, known.labels))
    wrong = sum(count for _, _, count in found.confusions)
    assert wrong == round((100 - found.accuracy) / 100 * found.pictures)
    assert found.unknown == dict.fromkeys(NAMES[9:], 8)
    assert found.auroc > 80
    assert found.learned == 0
    assert classifier.evaluate(images_of("class 0")).learned == 20
    assert "24 pictures of 3 classes that it does not know" in str(found)


# --- Probabilities -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> Embeddings:
    return Embeddings.load("cifar100-small")


def test_probabilities_are_calibrated_on_pictures_that_were_not_learned(small: Embeddings) -> None:
    classifier = Classifier(None, method="simplecil", device="cpu")
    classifier.learn(small)
    found = classifier.evaluate(small)
    assert found.ece_after < 5 < found.ece_before
    card = classifier.card()["calibration"]
    assert card["accuracy"] == pytest.approx(found.accuracy, abs=3)
    assert classifier.log[-1].accuracy == card["accuracy"]


def test_the_threshold_lets_known_pictures_pass(small: Embeddings) -> None:
    known = small.class_names[:50]
    classifier = Classifier(None, method="simplecil", device="cpu")
    classifier.learn({name: small.train.of((name,)).images for name in known})
    seen, unseen = small.test.of(known).images, small.test.of(small.class_names[50:]).images
    for share in (0.8, 0.95):
        accepted = [said is not None for said in classifier.predict(seen, reject=share)]
        assert np.mean(accepted) == pytest.approx(share, abs=0.03)
    strangers = [said is not None for said in classifier.predict(list(unseen), reject=0.8)]
    assert np.mean(strangers) < 0.6
    assert (classifier.predict(seen, reject=0.8) == None).any(), "labels or None"  # noqa: E711


def test_what_is_held_out_is_kept_and_never_learned() -> None:
    classifier = taught("proof", exemplars="15/class")
    memory = classifier._known.memory
    assert memory.counts(held=True) == dict.fromkeys(NAMES[:6], 2)
    assert memory.counts(held=False) == dict.fromkeys(NAMES[:6], 13)
    assert set(classifier._known.learner.pictures.values()) == {18}
    assert set(classifier.pictures.values()) == {20}
    before = set(memory.keys(memory.held))
    again = classifier.learn(images_of(*NAMES[:3]))
    assert again.repeated == 45, "of those that are kept"
    assert set(memory.keys(memory.held)) == before, "and given again it is not learned"
    assert classifier._known.learner.pictures["class 0"] == 36


def test_the_order_of_pictures_does_not_choose_what_is_held_out() -> None:
    images = images_of("class 0", "class 1")
    held = []
    for turn in (False, True):
        classifier = Classifier(None, method="proof", device="cpu")
        classifier.learn({n: x.flip(0) if turn else x for n, x in images.items()})
        held.append(set(classifier._known.memory.keys(classifier._known.memory.held)))
    assert held[0] == held[1]


def test_few_pictures_are_all_learned() -> None:
    classifier = Classifier(None, method="proof", device="cpu")
    assert classifier.learn({"a": IMAGES[:4], "b": IMAGES[4:9]}).held_out == 1
    assert Classifier(None, exemplars=0).learn({"a": IMAGES[:40]}).held_out == 0


def test_without_pictures_the_methods_own_temperature_holds(path: Path) -> None:
    classifier = taught("proof", exemplars=0)
    assert classifier.card()["calibration"]["temperature"] == 1.0
    assert classifier.card()["calibration"]["accuracy"] is None
    assert classifier.card()["kept"] == {"pictures": 0, "held_out": 0}
    with pytest.raises(ProofError, match="reject needs pictures that were kept"):
        classifier.predict(IMAGES, reject=0.95)
    assert same(saved(classifier, path), classifier)


# --- Forgetting, merging, renaming ---------------------------------------------------------------


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("method", ["simplecil", "zero-shot", "proof", "proof-reference"])
def test_a_forgotten_class_leaves_no_trace(method: str, tmp_path: Path) -> None:
    path = tmp_path / "kitchen.proof"
    classifier = taught(method)
    classifier.save(path)
    classifier.rename("class 5", "class five")
    classifier.save(path)
    pictures = vectors_of(images_of("class 1")["class 1"])
    assert len(steps(path)) == 1
    assert any(row.numpy().tobytes() in bytes_in(tmp_path) for row in pictures)
    found = classifier.forget("class 1")
    assert found.complete
    assert "class 1" not in classifier.classes
    assert "class 1" not in classifier.predict(IMAGES)
    classifier.save(path)
    assert steps(path) == []
    left = bytes_in(tmp_path)
    assert not any(row.numpy().tobytes() in left for row in pictures)
    classifier.learn(images_of("class 7"))
    classifier.save(path)
    assert len(steps(path)) == 1, "and from then on there is a history again"
    assert same(proof.load(path, device="cpu"), classifier)


@pytest.mark.parametrize("method", ["proof", "proof-reference"])
def test_with_all_pictures_kept_forgetting_is_as_if_never_taught(method: str) -> None:
    classifier, never = taught(method), Classifier(None, method=method, device="cpu")
    classifier.forget("class 1")
    never.learn(images_of("class 0", "class 2"), texts=texts_of("class 0", "class 2"))
    never.learn(images_of(*NAMES[3:6]), texts=texts_of(*NAMES[3:6]))
    assert same(classifier, never)
    assert classifier._known.learner.tasks == 2


def test_trained_weights_are_said_to_carry_traces_where_pictures_are_missing() -> None:
    classifier = taught("proof", exemplars="5/class")
    found = classifier.forget("class 1")
    assert not found.complete
    assert "trained weights still carry traces of the 20 pictures" in str(found)
    assert "class 1" not in classifier.predict(IMAGES)
    assert classifier._known.memory.counts(held=False)["class 1"] == 0


def test_pictures_given_again_must_be_those_that_were_taught() -> None:
    classifier = taught(exemplars=0)
    pictures = images_of("class 1")["class 1"]
    with pytest.raises(ProofError, match=r"5 pictures given to forget 'class 1'.*learned 20"):
        classifier.forget("class 1", pictures[:5])
    assert classifier.forget("class 1", pictures).complete


def test_a_renamed_class_keeps_what_it_was_taught(path: Path) -> None:
    classifier = taught("proof")
    before = classifier.predict_proba(IMAGES)
    classifier.rename("class 1", "été 日本 🙂")
    found = saved(classifier, path)
    assert found.classes[1] == "été 日本 🙂"
    assert found.pictures["été 日本 🙂"] == 20
    assert np.array_equal(found.predict_proba(IMAGES), before)
    assert found.log[-1].classes == ("class 1", "été 日本 🙂")


@pytest.mark.parametrize("method", list_methods())
def test_models_taught_apart_are_merged(method: str) -> None:
    one, two = taught(method, classes=3), Classifier(None, method=method, device="cpu")
    names = NAMES[2:8]
    two.learn(images_of(*names), texts=texts_of(*names))
    lesson = one.merge(two)
    assert (lesson.new, lesson.refined) == (list(NAMES[3:8]), ["class 2"])
    assert lesson.repeated == 20
    assert one.classes == list(NAMES[:8])
    assert one.pictures["class 2"] == 40
    test = DATA.test.of(NAMES[:8])
    assert one.score(test.images, test.labels) > 0.6
    memory = one._known.memory
    assert not set(memory.keys(memory.held)) & set(memory.keys(~memory.held))
    assert one.log[-1].what == "merge"


def test_merging_takes_whole_what_was_taught_nothing() -> None:
    empty = Classifier(None, method="simplecil", device="cpu")
    empty.merge(taught())
    assert same(empty, taught())


# --- The file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*list_methods(), "proof:epochs=2:fusion=no:temperature=0.05"])
def test_a_loaded_classifier_is_the_saved_one_and_goes_on(method: str, path: Path) -> None:
    classifier = taught(method)
    found = saved(classifier, path)
    assert same(found, classifier)
    assert create(found.method).options == create(method).options
    assert found.card() == classifier.card()
    assert found.log == classifier.log
    known, theirs = (
        classifier.predict(list(IMAGES), reject=0.9),
        found.predict(list(IMAGES), reject=0.9),
    )
    assert known == theirs
    for one in (classifier, found):
        one.learn(images_of(*NAMES[6:9]), texts=texts_of(*NAMES[6:9]))
    gap = abs(found.predict_proba(IMAGES) - classifier.predict_proba(IMAGES)).max()
    assert gap < (1e-3 if isinstance(found._known.learner, SumsLearner) else 1e-12), method


def test_the_file_holds_a_kept_picture_once(path: Path) -> None:
    classifier = taught("proof")
    classifier.save(path)
    names = {entry.name for entry in read_header(path).entries}
    assert "kept.vectors" in names
    assert not {"learner.exemplars", "learner.exemplar_counts"} & names


def test_dropping_the_exemplars_keeps_what_was_learned(tmp_path: Path) -> None:
    path = tmp_path / "kitchen.proof"
    classifier = taught("proof")
    classifier.save(path)
    before = classifier.predict_proba(IMAGES)
    classifier.drop_exemplars()
    found = saved(classifier, path)
    assert np.array_equal(found.predict_proba(IMAGES), before)
    assert found.card()["kept"]["pictures"] == 0
    assert found.card()["calibration"]["accuracy"] is not None
    left = bytes_in(tmp_path)
    for picture in vectors_of(torch.cat(list(images_of(*NAMES[:6]).values()))):
        assert picture.numpy().tobytes() not in left
    found.learn(images_of("class 8"))
    assert found.card()["kept"]["pictures"] == 0


def test_what_another_wrote_meanwhile_is_not_lost(path: Path) -> None:
    taught().save(path)
    one, two = proof.load(path), proof.load(path)
    one.learn({"teapot": IMAGES[:3]})
    one.save(path)
    two.learn({"cup": IMAGES[3:6]})
    with pytest.raises(ProofError, match="changed by another process"):
        two.save(path)
    assert proof.load(path).classes[-1] == "teapot"
    one.learn({"cup": IMAGES[3:6]})
    one.save(path)


def test_a_method_forgets_everything_and_learns_again(path: Path) -> None:
    classifier = taught("proof", classes=3)
    for name in NAMES[:3]:
        classifier.forget(name)
    found = saved(classifier, path)
    assert found.classes == []
    found.learn(images_of("class 4", "class 5"))
    assert found.predict(images_of("class 4")["class 4"][0]).label == "class 4"


def test_many_pictures_are_kept_within_the_budget() -> None:
    for exemplars, expected in (("10/class", 10), (60, 10), ("100", 16), ("0", 0)):
        for method in ("simplecil", "proof"):
            classifier = taught(method, exemplars=exemplars)
            assert len(classifier._known.memory) == 6 * expected, (exemplars, method)


def test_pictures_kept_of_a_method_that_rehearses_are_what_it_rehearses_on() -> None:
    classifier = taught("proof", exemplars="10/class")
    exemplars = classifier._known.learner.exemplars.tensors()
    assert exemplars is not None
    kept = classifier._known.memory.part(held=False)[0].float()
    rows = {row.numpy().tobytes() for row in exemplars[0]}
    assert rows == {row.numpy().tobytes() for row in kept}


def test_pictures_from_a_folder_are_learned_saved_and_recognised(
    tmp_path: Path, tiny_clip: Path
) -> None:
    """The whole way, with a real encoder by name."""
    make_pictures(tmp_path / "photos" / "moka_pot", 6)
    for name in ("a", "b"):
        Image.new("RGB", (30, 30), "white").save(tmp_path / f"{name}.png")
    classifier = Classifier(f"local-dir:{tiny_clip}", device="cpu")
    classifier.learn(tmp_path / "photos")
    classifier.learn({"white wall": [tmp_path / "a.png"], "teapot": []})
    found = saved(classifier, tmp_path / "kitchen.proof")
    assert found.predict(tmp_path / "b.png") == classifier.predict(tmp_path / "b.png")
    assert found.card()["source"]["preprocessing"] == "squash 32x32 bicubic"
    assert found.pictures == {"moka pot": 6, "white wall": 1, "teapot": 0}


def test_a_small_model_of_sums_is_a_small_file_that_goes_on_as_before(path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(6, 64, generator=generator)

    def lesson(codes: range) -> dict[str, torch.Tensor]:
        return {f"c{c}": centres[c] + torch.randn(9, 64, generator=generator) for c in codes}

    classifier = proof.Classifier(encoder=None, method="analytic:features=2000")
    classifier.learn(lesson(range(3)))
    classifier.calibrate()
    classifier.save(path)
    assert path.stat().st_size < 200_000, "nine pictures a class, and not 2000 x 2000 sums"
    loaded, more = proof.load(path), lesson(range(3, 6))
    assert (loaded.predict_proba(centres) == classifier.predict_proba(centres)).all()
    for each in (classifier, loaded):
        each.learn(more)
    gap = abs(loaded.predict_proba(centres) - classifier.predict_proba(centres)).max()
    assert gap < 1e-3
    loaded.drop_exemplars()
    loaded.save(path)
    assert path.stat().st_size > 5_000_000, "without the pictures, the sums are there"
    assert (proof.load(path).predict_proba(centres) == loaded.predict_proba(centres)).all()
