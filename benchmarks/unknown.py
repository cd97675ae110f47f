"""How well a classifier knows what it does not know, and whether its probabilities mean anything.

    python benchmarks/unknown.py cifar100.safetensors [--methods proof,simplecil]

Teaches the first half of the tasks. The calibration error is that of test pictures of the classes
that were taught, at the method's own temperature and at the fitted one. Then these pictures are
told from those of the classes that never came (AUROC): by what `predict(..., reject=0.95)` uses,
and by what else was tried.
"""

from __future__ import annotations

import argparse

import torch.nn.functional as F
from torch import Tensor

from proof import Classifier, Embeddings, Stream
from proof.probabilities import separation

METHODS = "zero-shot,simplecil,proof,analytic:features=4096"


def taught(method: str, stream: Stream) -> Classifier:
    """A classifier of the first half of the tasks."""
    classifier = Classifier(encoder=None, method=method, exemplars="40/class")
    for index in range(len(stream) // 2):
        task, names = stream.task(index), stream.classes(index)
        texts = dict(zip(names, task.texts, strict=True))
        images = {name: stream.data.train.of((name,)).images for name in names}
        classifier.learn(images, texts=texts)
    return classifier


def signals(classifier: Classifier, images: Tensor) -> dict[str, Tensor]:
    """What may tell a picture of a known class from another, by name: (n,) each."""
    known = classifier._known
    own, fitted, scores = known.learner.scale, known.scale, known.learner.scores(images).cpu()
    shares, best = fitted.probabilities(scores), scores.double().topk(2, dim=1).values
    kept, _ = known.memory.part(held=False)
    middle = F.normalize(kept.float(), dim=1).mean(0)
    z, k = (F.normalize(F.normalize(x.float(), dim=1) - middle, dim=1) for x in (images, kept))
    return {
        "maximum softmax": own.probabilities(scores).max(1).values,
        "the same, calibrated": shares.max(1).values,
        "highest score": best[:, 0],
        "margin": best[:, 0] - best[:, 1],
        "energy": (fitted.logits(scores) / fitted.temperature).logsumexp(1),
        "entropy": (shares * shares.clamp_min(1e-30).log()).sum(1),
        "ten nearest kept pictures": (z @ k.T).topk(10, dim=1).values.mean(1),
        "**ours**": fitted.familiarity(scores),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--protocol", default="B0-Inc10")
    given = parser.parse_args()
    data = Embeddings.load(given.embeddings)
    stream = Stream.of(data, given.protocol)
    print(f"{data.name}, {given.protocol}, after {len(stream) // 2} of {len(stream)} tasks\n")
    print("| method | accuracy | ECE before | ECE after | accepted at 0.95 | unknown ones |")
    print("|---|---|---|---|---|---|")
    told: dict[str, dict[str, float]] = {}
    for method in given.methods.split(","):
        classifier = taught(method, stream)
        names = classifier.classes
        seen, unseen = data.test.of(tuple(names)), data.test.of(stream.order[len(names) :])
        found = classifier.evaluate({name: data.test.of((name,)).images for name in names})
        passed = [
            100 * (classifier.predict(part.images.numpy(), reject=0.95) != None).mean()  # noqa: E711
            for part in (seen, unseen)
        ]
        print(
            f"| `{method}` | {found.accuracy:.1f} | {found.ece_before:.1f} | {found.ece_after:.1f} "
            f"| {passed[0]:.1f} % | {passed[1]:.1f} % |",
            flush=True,
        )
        known, unknown = (signals(classifier, part.images) for part in (seen, unseen))
        told[method] = {name: separation(known[name], unknown[name]) for name in known}
    print(f"\n| AUROC by | {' | '.join(f'`{method}`' for method in told)} |")
    print("|---|" + "---|" * len(told))
    for name in next(iter(told.values())):
        print(f"| {name} | {' | '.join(f'{values[name]:.1f}' for values in told.values())} |")


if __name__ == "__main__":
    main()
