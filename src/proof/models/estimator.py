"""What scikit-learn's users expect of a classifier: X (n, d) are embeddings, y (n,) their labels.

Nothing of scikit-learn is needed. Labels may be of any type; the model itself keeps their texts.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from proof.errors import InputError
from proof.models.material import Material
from proof.models.pictures import vectors_of


class Estimator(ABC):
    """`fit`, `partial_fit`, `score` and what goes with them."""

    _given: dict[str, Any]  # labels as they were given to `fit`, by their text

    @property
    @abstractmethod
    def classes(self) -> list[str]:
        """The labels, as texts."""

    @property
    @abstractmethod
    def dim(self) -> int | None:
        """How many numbers an embedding has; None where nothing was taught."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all."""

    @abstractmethod
    def _teach(self, material: Material) -> Any: ...

    @abstractmethod
    def _codes(self, vectors: Tensor) -> list[int]:
        """The classes of embeddings (n, d), as their places in `classes`."""

    def fit(self, X: Any, y: Any) -> Self:
        """Forget all, then learn embeddings X (n, d) with labels y (n,)."""
        material, given = _material(X, y, {})
        self.reset()
        self._teach(material)
        self._given = given
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go on learning. New classes may come at any time: `classes` is there because
        scikit-learn passes it, and is not needed."""
        material, given = _material(X, y, self._given)
        self._teach(material)
        self._given = given
        return self

    def score(self, X: Any, y: Any) -> float:
        """The share of X (n, d) that is given its label, 0 to 1."""
        vectors, labels = vectors_of(X), _labels(y)
        _check_lengths(len(vectors), len(labels))
        classes, codes = self.classes, self._codes(vectors)
        pairs = zip(codes, labels.tolist(), strict=True)
        return float(np.mean([classes[code] == str(label) for code, label in pairs]))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels as they were given to `fit`, in the order of `predict_proba`."""
        if not self.classes:
            raise AttributeError("nothing was learned yet: there is no classes_")
        return self._as_given(self.classes)

    @property
    def n_features_in_(self) -> int:
        """How many numbers an embedding has."""
        if self.dim is None:
            raise AttributeError("nothing was learned yet: there is no n_features_in_")
        return self.dim

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments; they count from the next `fit` on."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise InputError(f"no parameter '{name}': expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.classes)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags("classifier", TargetTags(required=True), None, ClassifierTags(), None)

    def _as_given(self, labels: list[str]) -> NDArray[Any]:
        values = [self._given.get(label, label) for label in labels]
        return np.array(values, object if len({type(value) for value in values}) > 1 else None)


def _material(X: Any, y: Any, given: dict[str, Any]) -> tuple[Material, dict[str, Any]]:
    """X and y as they are taught, and the labels as they came."""
    vectors, labels = vectors_of(X), _labels(y)
    _check_lengths(len(vectors), len(labels))
    if not len(labels):
        raise InputError("0 sample(s) while a minimum of 1 is required: nothing to learn from")
    try:
        unique = np.unique(labels).tolist()
    except TypeError as error:
        raise InputError(f"labels of different types: {error}") from None
    known = dict(given)
    for label in unique:
        if known.setdefault(str(label), label) != label:
            raise InputError(
                f"labels {label!r} and {known[str(label)]!r} read the same: rename one"
            )
    classes = [str(label) for label in unique]
    return Material(classes, vectors, [str(label) for label in labels.tolist()]), known


def _labels(y: Any) -> NDArray[Any]:
    if y is None:
        raise InputError("it requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"labels of shape {labels.shape}: expected (n,), one for each picture")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InputError("labels with NaN or infinity (inf): expected the names of classes")
        if (labels != labels.round()).any():
            raise InputError("Unknown label type: continuous. Expected the names of classes")
    return labels


def _check_lengths(pictures: int, labels: int) -> None:
    if pictures != labels:
        raise InputError(f"{pictures} pictures with {labels} labels: expected one for each")
