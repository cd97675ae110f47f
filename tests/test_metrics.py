from __future__ import annotations

import torch

from proof import metrics


def test_hits_count_the_k_highest_scores() -> None:
    scores = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.5, 0.1]])
    codes = torch.tensor([0, 1, 2])
    assert metrics.hits(scores, codes).tolist() == [True, False, False]
    assert metrics.hits(scores, codes, k=2).tolist() == [True, True, False]
    assert metrics.hits(scores, codes, k=5).all(), "five of three classes is all of them"


def test_class_accuracy_leaves_out_classes_without_pictures() -> None:
    hit, codes = torch.tensor([True, False, True]), torch.tensor([0, 0, 2])
    assert metrics.class_accuracy(hit, codes, 3) == [50.0, None, 100.0]


def test_forgetting_takes_the_best_before_the_last() -> None:
    matrix = [[90.0], [95.0, 80.0], [70.0, 85.0, 60.0]]
    assert metrics.forgetting(matrix) == ((95 - 70) + (80 - 85)) / 2
    assert metrics.backward_transfer(matrix) == ((70 - 90) + (85 - 80)) / 2
    assert metrics.forgetting([[90.0]]) == metrics.backward_transfer([[90.0]]) == 0.0


def test_averages() -> None:
    assert metrics.average([90.0, 80.0]) == 85.0
    assert metrics.harmonic_mean(50.0, 0.0) == 0.0
    assert metrics.accuracy(torch.tensor([True, True, False, False])) == 50.0


def test_confusions_are_the_pairs_with_most_pictures() -> None:
    predicted = torch.eye(4)[[1, 1, 2, 0, 3, 3]]
    codes = torch.tensor([0, 0, 0, 0, 1, 3])
    assert metrics.confusions(predicted, codes) == [(0, 1, 2), (0, 2, 1), (1, 3, 1)]
    assert metrics.confusions(predicted, codes, most=1) == [(0, 1, 2)]
    assert metrics.confusions(predicted, predicted.argmax(1)) == []


def test_a_later_class_takes_what_was_right_without_it() -> None:
    # Classes 0 and 1 come first, 2 and 3 later; all pictures are of class 0 but the last.
    scores = torch.tensor(
        [
            [0.8, 0.1, 0.9, 0.0],  # right without the later ones: class 2 took it
            [0.1, 0.8, 0.9, 0.0],  # wrong without them, too
            [0.8, 0.9, 0.1, 0.0],  # mixed up with a class of its own task
            [0.9, 0.1, 0.8, 0.0],  # right
            [0.0, 0.0, 0.8, 0.9],  # of class 2: class 3 came with it, not later
        ]
    )
    codes = torch.tensor([0, 0, 0, 0, 2])
    assert metrics.taken(scores, codes, [2, 2]) == [(0, 2, 1)]
    assert metrics.taken(scores, codes, [2, 1, 1]) == [(0, 2, 1), (2, 3, 1)]
    assert metrics.taken(scores, codes, [4]) == []
