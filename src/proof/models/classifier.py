"""A classifier that can be taught more at any time: `proof.Classifier`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proof.devices import choose_device
from proof.embed import class_texts
from proof.encoders import DEFAULT, Encoder, load_encoder
from proof.errors import InputError, ProofError
from proof.exemplars import Budget
from proof.methods import Learner, create
from proof.models.calibration import familiarity, probabilities
from proof.models.estimator import Estimator
from proof.models.evaluation import Evaluation, judge
from proof.models.file import read_model
from proof.models.history import drop_history, write_model
from proof.models.knowledge import Knowledge
from proof.models.manifest import Source, describe, rebuild, spec_of
from proof.models.material import Embedded, Gatherer, Material, check_label
from proof.models.memory import keys_of
from proof.models.pictures import Progress, is_one, vectors_of
from proof.models.results import Explanation, Forgotten, Lesson, Prediction, Step

DEFAULT_METHOD = "proof"
_BEST = 5  # classes that a prediction names


class Classifier(Estimator):
    """Learns classes from pictures, one lesson after another, and names what pictures show.

    >>> import proof
    >>> data = proof.Embeddings.load("cifar100-small")
    >>> clf = proof.Classifier(encoder=None, method="simplecil")   # from embeddings
    >>> print(clf.learn(data))
    """

    def __init__(
        self,
        encoder: str | Encoder | None = DEFAULT,
        *,
        method: str = DEFAULT_METHOD,
        exemplars: str | int = "100/class",
        template: str = "a photo of a {}.",
        preprocess: str = "squash",
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self.encoder, self.method, self.exemplars = encoder, method, exemplars
        self.template, self.preprocess, self.device = template, preprocess, device
        self.seed = seed
        self.reset()

    def reset(self) -> None:
        """Forget all, as if nothing had been taught."""
        if self.template.count("{}") != 1 or set("{}") & set(self.template.replace("{}", "")):
            raise ProofError(f"template '{self.template}' needs one {{}} where the name goes")
        self._known = Knowledge(self._fresh_learner(), Budget.parse(str(self.exemplars)))
        self._source = Source(None, None, self.preprocess, None, self.template)
        self._opened: Encoder | None = None
        self._original: dict[str, Any] = {}
        self._saved: tuple[Path, str] | None = None  # where, and the revision
        self._forgot = False

    # --- Teaching ---

    def learn(
        self,
        lesson: Any,
        *,
        texts: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Lesson:
        """Teach new classes, more pictures of known ones, or both."""
        material = Gatherer(self._opener, progress).gather(lesson)
        return self._teach(material, texts, progress)

    def forget(
        self, label: str, pictures: Any = None, *, progress: Progress | None = None
    ) -> Forgotten:
        """Remove a class and every trace of its pictures, also from the file's history."""
        images = None if pictures is None else self.embed(pictures, strict=True).vectors
        forgotten = self._known.forget(label, images, self._same_learner, progress)
        self._forgot = True
        return forgotten

    def rename(self, old: str, new: str) -> None:
        """Give a class another name. What it was taught stays."""
        self._known.rename(old, new)

    def merge(self, other: Classifier, *, progress: Progress | None = None) -> Lesson:
        """Take in what another classifier was taught."""
        if other is self:
            raise ProofError("cannot merge a classifier with itself")
        self._check_source(other._source, other.dim)
        return self._known.merge(other._known, progress)

    def drop_exemplars(self) -> None:
        """Keep no pictures any more, for privacy; what was learned of them stays."""
        self._known.drop_exemplars()
        self.exemplars = "0"
        self._forgot = True

    # --- Asking ---

    def predict(
        self, pictures: Any, *, reject: float | None = None, progress: Progress | None = None
    ) -> Any:
        """What pictures show: a `Prediction` for one, a list for several, and for an array (n, d)
        of embeddings an array of labels. With `reject=0.95` None stands for what belongs to no
        class, by a threshold that 95 % of pictures of known classes pass."""
        one = is_one(pictures, self.encoder is not None)
        array = (
            isinstance(pictures, np.ndarray | Tensor)
            and pictures.ndim == 2
            or hasattr(pictures, "iloc")
        )
        shares = self._shares(pictures, progress)
        accepted = self._accepted(shares, reject)
        if array:
            return self._labels(shares, accepted)
        best = shares.topk(min(_BEST, shares.shape[1]), dim=1)
        found = [
            self._prediction(values, codes) if known else None
            for values, codes, known in zip(
                best.values.tolist(), best.indices.tolist(), accepted.tolist(), strict=True
            )
        ]
        return found[0] if one else found

    def predict_proba(self, pictures: Any, *, progress: Progress | None = None) -> NDArray[Any]:
        """Calibrated probabilities (n, classes), columns as in `classes`."""
        return self._shares(pictures, progress).numpy()

    def explain(self, picture: Any) -> Explanation:
        """What each part of the method says of one picture."""
        vectors = self._vectors(picture, None)
        if len(vectors) != 1:
            raise ProofError(f"{len(vectors)} pictures to explain: expected one")
        shares = probabilities(self._known.learner.scores(vectors), self._temperature)
        best = shares[0].topk(min(_BEST, len(self.classes)))
        codes = best.indices.tolist()
        votes = self._known.learner.votes(vectors)
        return Explanation(
            self._prediction(best.values.tolist(), codes),
            tuple(self.classes[code] for code in codes),
            {part: tuple(vote[0, codes].tolist()) for part, vote in votes.items()},
            {part: self.classes[int(vote[0].argmax())] for part, vote in votes.items()},
        )

    def evaluate(self, data: Any, *, progress: Progress | None = None) -> Evaluation:
        """How good it is on labelled pictures; of a data set, on its part for testing."""
        material = Gatherer(self._opener, progress).gather(data, testing=True)
        self._check_vectors(material.vectors)
        taught = {key for _, key in self._known.memory.keys(held=False)}
        return judge(
            self._known.learner.scores(material.vectors),
            material.labels,
            self.classes,
            self._temperature,
            learned=sum(key in taught for key in keys_of(material.vectors)),
            broken=material.broken,
        )

    def embed(
        self, pictures: Any, *, progress: Progress | None = None, strict: bool = False
    ) -> Embedded:
        """Embeddings of pictures, and those that are broken."""
        return Gatherer(self._opener, progress).embed(pictures, strict=strict)

    @property
    def classes(self) -> list[str]:
        """The names of all classes, in the order in which they came."""
        return list(self._known.classes)

    @property
    def pictures(self) -> dict[str, int]:
        """How many pictures each class was given."""
        return self._known.pictures

    @property
    def log(self) -> list[Step]:
        """What was done, and when."""
        return list(self._known.log)

    @property
    def dim(self) -> int | None:
        """How many numbers an embedding has; None as long as nothing was taught."""
        return self._known.dim

    def card(self) -> dict[str, Any]:
        """The facts of the model."""
        manifest, tensors = describe(self._known, self._source)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        held = len(self._known.memory.held_out()[1])
        manifest["kept"] = {"pictures": len(self._known.memory), "held_out": held}
        return {**manifest, "bytes": size}

    # --- The file ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model into a `.proof` file, in one step."""
        manifest, tensors = describe(self._known, self._source)
        target = Path(path)
        same = self._saved is not None and self._saved[0] == target.resolve()
        expecting = self._saved[1] if same and self._saved else None
        revision = write_model(
            target, manifest, tensors, expecting=expecting, keep=not self._forgot
        )
        if self._forgot:
            drop_history(target)
        self._saved, self._forgot = (target.resolve(), revision), False

    # --- Inside ---

    def _fresh_learner(self) -> Learner:
        return create(
            self.method,
            seed=self.seed,
            device=choose_device(self.device),
            budget=Budget.parse(str(self.exemplars)),
        )

    def _same_learner(self) -> Learner:
        old = self._known.learner
        return type(old)(old.options, seed=old.seed, device=old.device, budget=self._known.budget)

    @property
    def _temperature(self) -> float:
        return self._known.calibration.temperature

    @property
    def _opener(self) -> Any:
        return None if self.encoder is None else self._open_encoder

    def _open_encoder(self) -> Encoder:
        if self._opened is None:
            encoder = self.encoder
            if not isinstance(encoder, Encoder):
                assert encoder is not None
                encoder = load_encoder(encoder, preprocess=self.preprocess, device=self.device)
            found = Source(
                encoder.name,
                encoder.fingerprint,
                self.preprocess,
                str(encoder.preprocessing),
                self.template,
            )
            self._check_source(found, encoder.dim)
            self._opened, self._source = encoder, found
        return self._opened

    def _check_source(self, other: Source, dim: int | None) -> None:
        mine = self._source
        if None not in (dim, self.dim) and dim != self.dim:
            raise InputError(
                f"embeddings of {dim} numbers: this classifier was taught with {self.dim}"
            )
        for name in ("fingerprint", "preprocessing"):
            ours, theirs = getattr(mine, name), getattr(other, name)
            if None not in (ours, theirs) and ours != theirs:
                raise ProofError(
                    f"this classifier was taught with the encoder '{mine.encoder}' ({name} "
                    f"{ours[:40]}), and '{other.encoder}' has {theirs[:40]}: embeddings of different "
                    f"encoders do not mix"
                )

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
            self._check_vectors(material.vectors)
        facts = material.metadata
        found = Source(
            facts.get("encoder"), facts.get("fingerprint"), self.preprocess, facts.get("preprocess")
        )
        self._check_source(found, None)
        new = [label for label in material.classes if label not in self._known.texts]
        known = self._texts(material, new, texts or {})
        return self._known.teach(material, known, progress)

    def _texts(
        self, material: Material, new: Sequence[str], given: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """The text embeddings of new classes: given, or of their names, or the mean picture."""
        for label in given:
            if label not in new:
                raise ProofError(f"a text for '{label}', which is no new class of this lesson")
        texts = {**material.texts, **{label: vectors_of([given[label]])[0] for label in given}}
        without = [label for label in new if label not in texts]
        if without and self.encoder is not None:
            names = [label.replace("_", " ") for label in without]
            vectors = class_texts(names, [self.template], self._open_encoder())
            texts |= dict(zip(without, vectors, strict=True))
        elif without:
            labels = np.array(material.labels)
            for label in without:
                mine = material.vectors[torch.from_numpy(labels == label)] if len(labels) else []
                if not len(mine):
                    raise ProofError(
                        f"'{label}' has no pictures, and without an encoder its name means nothing: "
                        f"give pictures, or learn(..., texts={{'{label}': embedding}})"
                    )
                texts[label] = mine.float().mean(0).half()
        return {label: texts[label] for label in new}

    def _vectors(self, pictures: Any, progress: Progress | None) -> Tensor:
        vectors = Gatherer(self._opener, progress).embed(pictures, strict=True).vectors
        if not self.classes:
            raise InputError("no class was learned yet: call learn() first")
        self._check_vectors(vectors)
        return vectors

    def _check_vectors(self, vectors: Tensor) -> None:
        if self.dim is not None and vectors.shape[1] != self.dim:
            raise InputError(
                f"X has {vectors.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.dim} features as input"
            )

    def _shares(self, pictures: Any, progress: Progress | None) -> Tensor:
        vectors = self._vectors(pictures, progress)
        return probabilities(self._known.learner.scores(vectors), self._temperature)

    def _accepted(self, shares: Tensor, reject: float | None) -> Tensor:
        if reject is None:
            return torch.ones(len(shares), dtype=torch.bool)
        if not 0 < reject < 1:
            raise ProofError(f"reject={reject}: expected a share between 0 and 1, such as 0.95")
        if not self._known.calibration.known:
            raise ProofError(
                "nothing to tell unknown pictures by: no pictures are held out. Teach with "
                "exemplars='100/class' and at least 5 pictures of a class"
            )
        return familiarity(shares) >= self._known.calibration.threshold(reject)

    def _labels(self, shares: Tensor, accepted: Tensor) -> NDArray[Any]:
        labels = self._as_given(self.classes)[shares.argmax(1).numpy()]
        if not accepted.all():
            labels = labels.astype(object)
            labels[~accepted.numpy()] = None
        return labels

    def _prediction(self, values: list[float], codes: list[int]) -> Prediction:
        named = [(self.classes[code], value) for code, value in zip(codes, values, strict=True)]
        return Prediction(*named[0], tuple(named[1:]))


def load(
    path: str | os.PathLike[str], *, device: str = "auto", encoder: Encoder | None = None
) -> Classifier:
    """Read a classifier from its file. The encoder is loaded when a picture is to be encoded."""
    model = read_model(path)
    known, source = rebuild(model.manifest, model.tensors, os.fspath(path), choose_device(device))
    classifier = Classifier(
        encoder or source.encoder,
        method=spec_of(known.learner),
        exemplars=str(known.budget),
        template=source.template,
        preprocess=source.preprocess,
        device=device,
        seed=known.learner.seed,
    )
    classifier._known, classifier._source = known, source
    classifier._saved = (Path(path).resolve(), model.revision)
    if encoder is not None:
        classifier._open_encoder()
    return classifier
