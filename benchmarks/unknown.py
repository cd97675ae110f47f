"""How well a classifier knows what it does not know, and whether its probabilities mean anything.

    python benchmarks/unknown.py cifar100.safetensors [--methods proof,simplecil]

Teaches the first half of the tasks, then tells the test pictures of those classes from those of the
classes that never came (AUROC): by how far the best class stands above the next ones, which
`predict(..., reject=0.95)` uses, beside plain maximum softmax. And the calibration error on the
classes that were taught, at the method's own temperature and at the fitted one.
"""

from __future__ import annotations

import argparse

from proof import Classifier, Embeddings, Stream
from proof.probabilities import familiarity, separation


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--methods", default="zero-shot,simplecil,proof,analytic:features=4096")
    parser.add_argument("--protocol", default="B0-Inc10")
    given = parser.parse_args()
    data = Embeddings.load(given.data)
    stream = Stream.of(data, given.protocol)
    print(f"{data.name}, {given.protocol}, after {len(stream) // 2} of {len(stream)} tasks\n")
    print("| method | AUROC, softmax | AUROC, ours | ECE before | ECE after | accepted at 0.95 |")
    print("|---|---|---|---|---|---|")
    for method in given.methods.split(","):
        classifier = Classifier(encoder=None, method=method, exemplars="40/class")
        for index in range(len(stream) // 2):
            task, texts = stream.task(index), data.texts_of(stream.classes(index))
            rows = {name: [] for name in task.classes}
            for row, label in enumerate(task.labels):
                rows[label].append(row)
            lesson = {name: task.images[places] for name, places in rows.items()}
            classifier.learn(lesson, texts=dict(zip(task.classes, texts, strict=True)))
        seen = data.test.of(tuple(classifier.classes))
        unseen = data.test.of(stream.order[len(classifier.classes) :])
        known = classifier._known
        scores = [known.learner.scores(part.images).cpu() for part in (seen, unseen)]
        plain = separation(*(known.learner.scale.probabilities(s).max(1).values for s in scores))
        ours = separation(*(familiarity(known.scale.logits(s)) for s in scores))
        measured = classifier.evaluate(
            {name: seen.of((name,)).images for name in classifier.classes}
        )
        passed = classifier._accepted(scores[0], 0.95).double().mean() * 100
        print(
            f"| `{method}` | {plain:.1f} | {ours:.1f} | {measured.ece_before:.1f} | "
            f"{measured.ece_after:.1f} | {passed:.1f} % |",
            flush=True,
        )
        print(f"  temperature {known.calibration.temperature:.4f}")


if __name__ == "__main__":
    main()
