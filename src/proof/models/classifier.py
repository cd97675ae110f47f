"""A classifier that can be taught more at any time: `proof.Classifier` and `proof.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from proof.datasets.base import DEFAULT_TEMPLATES, check_template
from proof.devices import choose_device
from proof.encoders import DEFAULT, Encoder
from proof.errors import InputError, ProofError
from proof.exemplars import Budget
from proof.methods import Learner, create
from proof.models.answers import explanation, predictions
from proof.models.estimator import Estimator
from proof.models.evaluation import Evaluation, judge
from proof.models.file import read_model
from proof.models.history import write_model
from proof.models.knowledge import Knowledge
from proof.models.lazy_encoder import LazyEncoder, Source
from proof.models.manifest import describe, rebuild, spec_of
from proof.models.material import Embedded, Gatherer, Material, Progress, check_label
from proof.models.memory import keys_of
from proof.models.pictures import is_one, is_table
from proof.models.results import Explanation, Forgotten, Lesson, Step
from proof.models.texts import new_texts
from proof.pictures.preprocessing import CHOICES

DEFAULT_METHOD = "analytic:features=4096"  # serves best; fewer features make a smaller file


class Classifier(Estimator):
    """Learns classes from pictures, one lesson after another, and says what pictures show.

    >>> import proof
    >>> data = proof.Embeddings.load("cifar100-small")
    >>> pictures = {name: data.train.of((name,)).images for name in ("rose", "tulip", "bee", "bus")}
    >>> clf = proof.Classifier(encoder=None, method="simplecil")   # embeddings, no encoder
    >>> print(clf.learn({name: pictures[name] for name in ("rose", "bee")}))
    2 new classes (rose, bee): 120 pictures
    >>> print(clf.learn({"tulip": pictures["tulip"], "bus": pictures["bus"]}))
    2 new classes (tulip, bus): 120 pictures
    >>> clf.predict(data.test.of(("bee",)).images[1]).label
    'bee'

    `encoder` is a name that `load_encoder` takes, an `Encoder`, or None: then pictures are given as
    embeddings. `method` is any that `proof methods` lists, with options behind colons. `exemplars`
    are the pictures to keep, as embeddings. `template` is what is said of a class to the encoder.
    """

    def __init__(
        self,
        encoder: str | Encoder | None = DEFAULT,
        *,
        method: str = DEFAULT_METHOD,
        exemplars: str | int = "50/class",
        template: str = DEFAULT_TEMPLATES[0],
        preprocess: str = "squash",
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self.encoder, self.method, self.exemplars = encoder, method, exemplars
        self.template, self.preprocess = template, preprocess
        self.device, self.seed = device, seed
        self._clean: set[Path] | None
        self.reset()

    def __repr__(self) -> str:
        return f"<Classifier of {len(self.classes)} classes, method {self.method}>"

    def reset(self) -> None:
        """Forget all, as if nothing had been taught."""
        self._check_arguments()
        budget, device = Budget.parse(str(self.exemplars)), choose_device(self.device)
        learner = create(self.method, seed=self.seed, device=device, budget=budget)
        name = self.encoder.name if isinstance(self.encoder, Encoder) else self.encoder
        self._adopt(
            Knowledge(learner, budget), Source(name, None, self.preprocess, None, self.template)
        )

    def learn(
        self,
        lesson: Any,
        *,
        texts: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Lesson:
        """Teach new classes, more pictures of known ones, or both.

        `lesson` is a dictionary of class names and their pictures (a list of paths, PIL images or
        arrays, a folder, or embeddings (n, d); an empty list: known by its name alone), a folder of
        class folders, or whatever else `open_dataset` takes, of which the part for training.
        `texts` gives text embeddings (d,) of new classes in place of the encoder's; where there is
        neither, the mean picture of a class stands for its name.
        """
        return self._teach(self._gatherer(progress).gather(lesson), texts, progress)

    def forget(
        self, label: str, pictures: Any = None, *, progress: Progress | None = None
    ) -> Forgotten:
        """Remove a class and its pictures; when saved, the file's history too.

        Where a method needs the pictures of the class to forget it, and they are not all kept, they
        are to be given again.
        """
        self._known.require(label, "forget")
        images = None if pictures is None else self._vectors(pictures, progress)
        forgotten = self._known.forget(label, images, self._fresh_learner, progress)
        self._clean = set()
        return forgotten

    def rename(self, old: str, new: str) -> None:
        """Give a class another name. What it was taught stays, the text embedding too."""
        self._known.rename(old, new)

    def merge(self, other: Classifier, *, progress: Progress | None = None) -> Lesson:
        """Take in what another classifier, of the same encoder and method, was taught."""
        if other is self:
            raise ProofError("a classifier cannot be merged with itself")
        if other.dim:
            self._check_dim(other.dim)
        agreed = self._encoder.source.agreed(other._encoder.source)
        lesson = self._known.merge(other._known, progress)
        self._encoder.source = agreed
        return lesson

    def calibrate(self, *, progress: Progress | None = None) -> None:
        """Make now what probabilities need, so that it is saved and nobody waits for it later."""
        self._known.calibrate(progress)

    def drop_exemplars(self) -> None:
        """Keep no pictures any more, for privacy. What was learned of them stays."""
        self._known.drop_exemplars()
        self.exemplars, self._clean = "0", set()

    def predict(
        self, pictures: Any, *, reject: float | None = None, progress: Progress | None = None
    ) -> Any:
        """What pictures show: a `Prediction` for one, a list for several, and for an array (n, d)
        of embeddings an array of labels.

        With `reject=0.95` what seems to be of no known class is None. The threshold is such that
        95 % of pictures of known classes pass it.
        """
        scores = self._scores(self._vectors(pictures, progress))
        self._known.calibrate(progress)
        accepted = self._accepted(scores, reject)
        if is_table(pictures, self.encoder is not None):
            return self._labels(scores, accepted)
        found = [
            said if known else None
            for said, known in zip(
                predictions(self._known.scale.probabilities(scores), self.classes),
                accepted.tolist(),
                strict=True,
            )
        ]
        return found[0] if is_one(pictures, self.encoder is not None) else found

    def predict_proba(self, pictures: Any, *, progress: Progress | None = None) -> NDArray[Any]:
        """Calibrated probabilities (n, classes), columns as in `classes`."""
        scores = self._scores(self._vectors(pictures, progress))
        self._known.calibrate(progress)
        shares: NDArray[Any] = self._known.scale.probabilities(scores).numpy()
        return shares

    def explain(self, picture: Any) -> Explanation:
        """What each part of the method says of one picture: of PROOF, its three matchings."""
        vectors = self._vectors(picture, None)
        if len(vectors) != 1:
            raise ProofError(f"{len(vectors)} pictures to explain: expected one")
        shares = self._known.scale.probabilities(self._scores(vectors))
        votes = self._known.learner.votes(vectors)
        return explanation(predictions(shares, self.classes)[0], votes, self.classes)

    def evaluate(self, data: Any, *, progress: Progress | None = None) -> Evaluation:
        """How good it is on labelled pictures, in any form that `learn` takes; of a data set, on
        its part for testing."""
        material = self._gatherer(progress).gather(data, testing=True)
        self._encoder.source.and_file(material.metadata)
        if not set(material.labels) & set(self.classes):
            raise ProofError(
                f"none of the {len(set(material.labels))} labels is a class that was learned"
            )
        memory = self._known.memory
        learned = {content for _, content in memory.keys(~memory.held)}
        return judge(
            self._scores(material.vectors),
            material.labels,
            self.classes,
            (self._known.learner.scale, self._known.scale),
            sum(content in learned for content in keys_of(material.vectors)),
            material.broken,
        )

    def embed(
        self, pictures: Any, *, progress: Progress | None = None, strict: bool = False
    ) -> Embedded:
        """The embeddings of pictures. Broken ones are listed, or with `strict` are an error."""
        return self._gatherer(progress).embed(pictures, strict=strict)

    @property
    def classes(self) -> list[str]:
        """The labels, in the order in which they came."""
        return list(self._known.classes)

    @property
    def pictures(self) -> dict[str, int]:
        """How many pictures each class was given."""
        return {label: self._known.pictures[label] for label in self._known.classes}

    @property
    def log(self) -> list[Step]:
        """What was done, and when."""
        return list(self._known.log)

    @property
    def dim(self) -> int | None:
        """How many numbers an embedding has; None where nothing was taught."""
        return self._known.dim

    def card(self) -> dict[str, Any]:
        """The facts of the model, as its file has them, and how many pictures it keeps."""
        self.calibrate()
        manifest, tensors = describe(self._known, self._encoder.source)
        memory = self._known.memory
        kept = {"pictures": len(memory), "held_out": int(memory.held.sum())}
        size = sum(tensor.nbytes for tensor in tensors.values())
        return {**manifest, "kept": kept, "bytes": size}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a `.proof` file, in one step. A file that was changed by another since
        it was loaded is not written over."""
        target = Path(path)
        place = target.resolve()
        manifest, tensors = describe(self._known, self._encoder.source)
        self._revisions[place] = write_model(
            target,
            manifest,
            tensors,
            expecting=self._revisions.get(place),
            keep=self._clean is None or place in self._clean,
        )
        if self._clean is not None:
            self._clean.add(place)

    def _check_arguments(self) -> None:
        kinds = {"method": str, "template": str, "preprocess": str, "device": str, "seed": int}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name}={getattr(self, name)!r}: expected {kind.__name__}")
        if not isinstance(self.encoder, str | Encoder | None):
            raise InputError(f"encoder={self.encoder!r}: expected a name, an Encoder, or None")
        check_template(self.template)
        if self.preprocess not in CHOICES:
            raise InputError(f"preprocess='{self.preprocess}': expected {' or '.join(CHOICES)}")

    def _adopt(self, known: Knowledge, source: Source) -> None:
        """Be what is known, and nothing else."""
        self._known = known
        self._encoder = LazyEncoder(self.encoder, source, self.device)
        self._given: dict[str, Any] = {}
        self._revisions: dict[Path, str] = {}  # of the files that were read or written
        # After something was forgotten: the files that have been written since. The others may hold
        # it in their history.
        self._clean = None

    def _fresh_learner(self) -> Learner:
        old = self._known.learner
        return type(old)(old.options, seed=old.seed, device=old.device, budget=self._known.budget)

    def _gatherer(self, progress: Progress | None) -> Gatherer:
        return Gatherer(self._encoder.opener, progress)

    def _teach(
        self,
        material: Material,
        texts: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Lesson:
        if not material.classes:
            raise ProofError("nothing to learn: expected at least one class")
        for label in material.classes:
            check_label(label)
        if len(material.vectors):
            self._check_dim(material.vectors.shape[1])
        self._encoder.source.and_file(material.metadata)  # or an error
        new = new_texts(material, texts or {}, self._known.texts, self._encoder)
        lesson = self._known.teach(material, new, progress)
        self._encoder.source = self._encoder.source.and_file(material.metadata)
        return lesson

    def _vectors(self, pictures: Any, progress: Progress | None) -> Tensor:
        if not self.classes:
            raise InputError("no class was learned yet: call learn or fit first")
        return self._gatherer(progress).embed(pictures, strict=True).vectors

    def _check_dim(self, dim: int) -> None:
        if self.dim not in (None, dim):
            raise InputError(
                f"X has {dim} features, but {type(self).__name__} is expecting {self.dim} features "
                f"as input: embeddings of one encoder have one length"
            )

    def _scores(self, vectors: Tensor) -> Tensor:
        if not len(vectors):
            return torch.zeros(0, len(self.classes))
        self._check_dim(vectors.shape[1])
        return self._known.learner.scores(vectors).cpu()

    def _codes(self, vectors: Tensor) -> list[int]:
        codes: list[int] = self._scores(vectors).argmax(1).tolist()
        return codes

    def _accepted(self, scores: Tensor, reject: float | None) -> Tensor:
        """Which pictures seem to be of a known class, (n,) bool."""
        if reject is None:
            return torch.ones(len(scores), dtype=torch.bool)
        if not 0 < reject < 1:
            raise ProofError(f"reject={reject}: expected a share between 0 and 1, such as 0.95")
        calibration = self._known.calibration
        if not calibration.known:
            raise ProofError(
                "reject needs pictures that were kept and not learned, and there are none: teach "
                "with exemplars='50/class', and at least 5 pictures of a class"
            )
        return self._known.scale.familiarity(scores) >= calibration.threshold(reject)

    def _labels(self, scores: Tensor, accepted: Tensor) -> NDArray[Any]:
        labels: NDArray[Any] = self._as_given(self.classes)[scores.argmax(1).numpy()]
        if not accepted.all():
            labels = labels.astype(object)
            labels[~accepted.numpy()] = None
        return labels


def load(
    path: str | os.PathLike[str], *, device: str = "auto", encoder: Encoder | None = None
) -> Classifier:
    """Read a classifier from its file.

    Its encoder is looked for when there is a picture or a name to encode; one that is loaded
    already may be given. With other weights than the model was taught with it is refused.
    """
    model = read_model(path)
    try:
        known, source = rebuild(model.manifest, model.tensors, choose_device(device))
    except ProofError as error:
        raise ProofError(f"cannot read '{os.fspath(path)}': {error}") from None
    classifier = Classifier(
        encoder or source.encoder,
        method=spec_of(known.learner),
        exemplars=str(known.budget),
        template=source.template,
        preprocess=source.preprocess,
        device=device,
        seed=known.learner.seed,
    )
    classifier._adopt(known, source)
    classifier._revisions[Path(path).resolve()] = model.revision
    if encoder is not None:
        classifier._encoder.open()
    return classifier
