"""scikit-learn's users find what they expect; its own checks say so, but for a few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import make_data
from proof import Classifier, ProofError

DATA = make_data(classes=5)
X = DATA.train.images.numpy()
Y = np.array([int(label.split()[1]) for label in DATA.train.labels])

NOT_FOR_US = {
    "check_estimators_unfitted": "NotFittedError is scikit-learn's, which is not needed here; the "
    "error is a ValueError",
    "check_do_not_raise_errors_in_init_or_set_params": "a wrong argument is refused at once",
    "check_estimators_dtypes": "it has a vector of zeros, which has no direction",
    "check_dtype_object": "what is no number is a ValueError, not a TypeError",
    "check_supervised_y_2d": "labels (n, 1) are taken without scikit-learn's warning",
    "check_fit2d_predict1d": "one embedding (d,) is one picture",
    "check_methods_subset_invariance": "scores are of float32, and equal in batches to 1e-5",
}


def not_for_us(estimator: Any) -> dict[str, str]:
    return NOT_FOR_US


@parametrize_with_checks(
    [Classifier(None, method=method, device="cpu") for method in ("simplecil", "proof")],
    expected_failed_checks=not_for_us,
)
def test_scikit_learns_own_check(estimator: Any, check: Any) -> None:
    check(estimator)


def classifier(**options: Any) -> Classifier:
    return Classifier(None, **{"method": "simplecil", "device": "cpu", **options})


def test_labels_come_back_as_they_were_given() -> None:
    for labels in (Y, Y.astype(float), Y.astype(str), Y == 1, Y.tolist()):
        fitted = classifier().fit(X, labels)
        assert fitted.classes_.tolist() == np.unique(labels).tolist()
        assert fitted.predict(X).dtype.kind == np.asarray(labels).dtype.kind
        assert fitted.score(X, labels) > 0.9
        assert fitted.classes == [str(label) for label in np.unique(labels).tolist()]


def test_columns_of_probabilities_are_classes() -> None:
    fitted = classifier().fit(X, Y)
    shares = fitted.predict_proba(X)
    assert np.allclose(shares.sum(1), 1)
    assert np.array_equal(fitted.classes_[shares.argmax(1)], fitted.predict(X))


def test_fit_forgets_and_partial_fit_does_not() -> None:
    fitted = classifier().fit(X, Y)
    old, new = Y < 3, Y >= 3
    fitted.fit(X[old], Y[old])
    assert fitted.classes_.tolist() == [0, 1, 2]
    fitted.partial_fit(X[new], Y[new])
    assert fitted.classes_.tolist() == [0, 1, 2, 3, 4]
    assert fitted.score(X, Y) > 0.9
    with pytest.raises(ProofError, match="read the same"):
        fitted.partial_fit(X[:1], ["0"])
    fitted.learn({"moka pot": X[:3]})
    assert fitted.classes_.tolist() == [0, 1, 2, 3, 4, "moka pot"]


def test_tools_of_scikit_learn_take_it() -> None:
    assert is_classifier(classifier())
    copy = clone(classifier(method="proof:epochs=2", seed=3))
    assert (copy.method, copy.seed, copy.classes) == ("proof:epochs=2", 3, [])
    assert cross_val_score(classifier(), X, Y, cv=3).mean() > 0.9
    assert make_pipeline(StandardScaler(), classifier()).fit(X, Y).score(X, Y) > 0.9
    search = GridSearchCV(classifier(), {"method": ["simplecil", "zero-shot"]}, cv=2).fit(X, Y)
    assert search.best_params_["method"] in ("simplecil", "zero-shot")


def test_scores_of_a_loaded_model_compare_labels_by_their_text(tmp_path: Any) -> None:
    import proof

    classifier().fit(X, Y).save(tmp_path / "model.proof")
    loaded = proof.load(tmp_path / "model.proof")
    assert loaded.classes_.tolist() == ["0", "1", "2", "3", "4"]
    assert loaded.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, Y[:3], "100 pictures with 3 labels"),
        (X, None, "requires y"),
        (X, np.ones((100, 2)), r"labels of shape \(100, 2\)"),
        (X[:0], Y[:0], "minimum of 1"),
        (X, np.linspace(0, 1, 100), "Unknown label type"),
        (X, np.full(100, np.nan), "labels with NaN"),
        ([["a", "b"]], ["x"], "no numbers"),
        (X, np.array([1, "1"] * 50, object), "labels of different types"),
    ],
)
def test_what_does_not_fit_is_a_value_error(x: Any, y: Any, message: str) -> None:
    fitted = classifier().fit(X, Y)
    with pytest.raises(ValueError, match=message) as caught:
        fitted.fit(x, y)
    assert isinstance(caught.value, ProofError)
    assert fitted.score(X, Y) > 0.9, "and what was learned is still there"
