"""What scikit-learn's users expect of a classifier: X (n, d) are embeddings, y their labels."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from proof.errors import InputError, ProofError
from proof.models.material import Material
from proof.models.pictures import vectors_of


class Estimator:
    """`fit`, `partial_fit`, `score` and what goes with them, above `learn` and `predict`."""

    _original: dict[str, Any]  # labels that are no strings, as they came

    @property
    @abstractmethod
    def classes(self) -> list[str]: ...

    @property
    @abstractmethod
    def dim(self) -> int | None: ...

    @abstractmethod
    def reset(self) -> None:
        """Forget all."""

    @abstractmethod
    def predict(self, pictures: Any) -> Any: ...

    @abstractmethod
    def _teach(self, material: Material) -> Any: ...

    def fit(self, X: Any, y: Any) -> Self:
        """Forget all, and learn embeddings X (n, d) with labels y (n,) of any type."""
        vectors, labels = vectors_of(X), _labels_of(y)
        self.reset()
        return self._learn_array(vectors, labels)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go on learning. New classes may come at any time; `classes` is what scikit-learn passes,
        and is not needed."""
        return self._learn_array(vectors_of(X), _labels_of(y))

    def score(self, X: Any, y: Any) -> float:
        """The share of X (n, d) that is given its label, 0 to 1."""
        return float(np.mean(np.asarray(self.predict(vectors_of(X))) == np.asarray(y)))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels as they were given to `fit`, in the order of `predict_proba`."""
        if not self.classes:
            raise AttributeError("classes_: nothing was learned yet")
        return self._as_given(self.classes)

    @property
    def n_features_in_(self) -> int:
        """How many numbers an embedding has."""
        if self.dim is None:
            raise AttributeError("n_features_in_: nothing was learned yet")
        return self.dim

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {name: getattr(self, name) for name in _parameters(type(self))}

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments; they count from the next `fit` on."""
        known = _parameters(type(self))
        for name, value in parameters.items():
            if name not in known:
                raise InputError(f"no parameter '{name}': expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.classes)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags  # type: ignore[import-untyped]

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            classifier_tags=ClassifierTags(),
            regressor_tags=None,
        )

    def _learn_array(self, vectors: Any, labels: NDArray[Any]) -> Self:
        if len(vectors) != len(labels):
            raise InputError(f"{len(vectors)} pictures with {len(labels)} labels")
        if not len(labels):
            raise InputError("no pictures to learn from: expected at least one")
        unique = np.unique(labels)
        names = {str(label): label for label in unique.tolist()}
        for name, label in names.items():
            if type(self._original.get(name, label)) is not type(label):
                raise ProofError(f"label {label!r} and {self._original[name]!r} read the same")
        if len(names) < len(unique):
            raise ProofError("two labels read the same when written out: rename one of them")
        self._teach(Material(list(names), vectors, [str(label) for label in labels.tolist()]))
        self._original |= names
        return self

    def _as_given(self, labels: list[str]) -> NDArray[Any]:
        return np.array([self._original.get(label, label) for label in labels])


def _parameters(cls: type) -> list[str]:
    return [name for name in inspect.signature(cls).parameters if name != "self"]


def _labels_of(y: Any) -> NDArray[Any]:
    if y is None:
        raise InputError("requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"labels of shape {labels.shape}: expected (n,), one for each picture")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InputError("labels with NaN or infinity (inf): expected names or whole numbers")
        if (labels != labels.round()).any():
            raise InputError("Unknown label type: continuous numbers; expected names of classes")
    return labels
