from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_data
from proof import Embeddings, ProofError, Stream
from proof.embeddings import Split
from proof.streams import parse_protocol


def test_order_is_numpys_legacy_permutation_of_the_classes() -> None:
    data = Embeddings.load("cifar100-small")
    stream = Stream.of(data, "B0-Inc10")
    first = [data.class_names.index(name) for name in stream.classes(0)]
    assert first == [68, 56, 78, 8, 23, 84, 90, 65, 74, 76]
    other = Stream.of(data, "B0-Inc10", order_seed=5)
    expected = np.random.RandomState(5).permutation(100)
    assert list(other.order) == [data.class_names[i] for i in expected]


@given(base=st.integers(0, 60), increment=st.integers(1, 30), tasks=st.integers(1, 9))
def test_sizes_of_a_protocol_hold_every_class_once(base: int, increment: int, tasks: int) -> None:
    sizes, name = parse_protocol(f"B{base}-Inc{increment}", base + tasks * increment)
    assert sum(sizes) == base + tasks * increment
    assert sizes == ((base,) if base else ()) + (increment,) * tasks
    assert name == f"B{base}-Inc{increment}"


def test_papers_varied_sizes() -> None:
    sizes = [12, 13, 10, 14, 5, 13, 13, 14, 6]
    stream = Stream.of(Embeddings.load("cifar100-small"), sizes)
    assert [len(stream.classes(i)) for i in range(len(stream))] == sizes
    assert sorted(sum((stream.classes(i) for i in range(9)), ())) == sorted(stream.order)


def test_tasks_hold_the_pictures_of_their_classes(stream: Stream) -> None:
    total = 0
    for index in range(len(stream)):
        task = stream.task(index)
        assert set(task.labels) == set(task.classes)
        assert len(task.images) == len(task.labels)
        for row, name in enumerate(task.classes):
            torch.testing.assert_close(task.texts[row], stream.data.texts_of([name])[0])
        total += len(task.labels)
        assert set(stream.test(index).labels) == set(task.classes)
    assert total == len(stream.data.train)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("B0-Inc5", r"B0-Inc5 does not add up to 12 classes: 2 tasks hold 10 and 2 .*--sizes 5,7"),
        ("B13-Inc1", r"B13-Inc1 does not fit 12 classes"),
        ("B0-Inc0", r"does not fit"),
        ("ten at a time", r"'ten at a time' is not of the form"),
        ([4, 4], r"\[4, 4\] add up to 8 classes, but the data have 12"),
        ([12, 0], r"every task needs at least 1 class"),
    ],
)
def test_sizes_that_do_not_add_up_are_refused_with_their_numbers(protocol, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ProofError, match=message):
        Stream.of(make_data(), protocol)


def test_a_class_without_pictures_is_refused_by_name(data: Embeddings) -> None:
    keep = data.train.codes != 3
    train = Split(data.train.images[keep], data.train.codes[keep], data.class_names)
    with pytest.raises(
        ProofError, match="1 of 12 classes have no training picture, first 'class 3'"
    ):
        Stream.of(Embeddings(train, data.test, data.texts), "B0-Inc4")
    none = Split(data.test.images[:0], data.test.codes[:0], data.class_names)
    with pytest.raises(ProofError, match=r"task 1 .* has no test picture"):
        Stream.of(Embeddings(data.train, none, data.texts), "B0-Inc4")
