"""A run: one method over one stream, measured after every task, that can stop and go on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

import proof
from proof import metrics
from proof.devices import choose_device
from proof.errors import ProofError
from proof.exemplars import Budget
from proof.files import replacing
from proof.methods import create
from proof.methods.base import Progress
from proof.pairs import Pairs
from proof.streams import Stream

Record = dict[str, Any]
_FORMAT = 2  # of records and checkpoints: one of another format is a run of its own


class Run:
    """One method over one stream.

    >>> from proof import Embeddings, Stream
    >>> run = Run("zero-shot", Stream.of(Embeddings.load("cifar100-small"), "B0-Inc50"))
    >>> while not run.done:
    ...     run.step()
    >>> [round(accuracy, 1) for accuracy in run.curve], run.record()["method"]
    ([73.8, 65.8], 'zero-shot')
    """

    def __init__(
        self,
        method: str,
        stream: Stream,
        *,
        seed: int = 0,
        budget: Budget | None = None,
        device: str = "auto",
        pairs: Pairs | None = None,
        **options: Any,
    ) -> None:
        """`method` is a name, with options behind colons; `options` are further ones. Where there
        are `pairs`, their matching score is measured too."""
        self.method, self.stream, self.seed, self.pairs = method, stream, seed, pairs
        if pairs:
            pairs.check_fit(stream.data)
        self.budget = budget or Budget(total=0)
        self.learner = create(
            method, seed=seed, device=choose_device(device), budget=self.budget, **options
        )
        # One entry for each task done.
        self._after: dict[str, list[Any]] = {
            "curve": [],
            "top5_curve": [],
            "accuracy_matrix": [],
            "seen": [],
            "unseen": [],
            "harmonic": [],
            **({"matching": []} if pairs else {}),
            "seconds": [],
        }
        self._now: dict[str, Any] = {}  # as it is after the last task done

    @property
    def done(self) -> bool:
        return self.learner.tasks == len(self.stream)

    @property
    def curve(self) -> list[float]:
        """The accuracy on all classes seen, after each task done."""
        return self._after["curve"]

    @property
    def key(self) -> str:
        """A hash of all that decides the result: the same key means the same run."""
        facts = {
            "method": self.learner.name,
            "options": dataclasses.asdict(self.learner.options),
            "data": self.stream.data.fingerprint,
            "sizes": self.stream.sizes,
            "order_seed": self.stream.order_seed,
            "seed": self.seed,
            "budget": str(self.budget),
            "device": self.learner.device.type,
            "version": proof.__version__,
            "format": _FORMAT,
        }
        if self.pairs:
            facts["pairs"] = self.pairs.fingerprint
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def step(self, progress: Progress | None = None) -> None:
        """Learn the next task and measure."""
        index = self.learner.tasks
        start = time.perf_counter()
        self.learner.learn(self.stream.task(index), progress)
        self._measure()
        self._after["seconds"].append(time.perf_counter() - start)

    def _measure(self) -> None:
        learner, stream, after = self.learner, self.stream, self._after
        order = stream.order
        place = {name: code for code, name in enumerate(order)}
        code_of = torch.tensor([place[name] for name in stream.data.class_names])

        # The classes seen so far, among themselves.
        tests = [stream.test(index) for index in range(learner.tasks)]
        codes = code_of[torch.cat([test.codes for test in tests])]
        scores = learner.scores(torch.cat([test.images for test in tests])).cpu()
        hit = metrics.hits(scores, codes)
        after["curve"].append(metrics.accuracy(hit))
        after["top5_curve"].append(metrics.accuracy(metrics.hits(scores, codes, k=5)))
        parts = hit.split([len(test) for test in tests])
        after["accuracy_matrix"].append([metrics.accuracy(part) for part in parts])
        per_class = metrics.class_accuracy(hit, codes, len(learner.classes))
        self._now = {"class_accuracy": dict(zip(learner.classes, per_class, strict=True))}
        if self.done:
            confusions = metrics.confusions(scores, codes)
            taken = metrics.taken(scores, codes, stream.sizes)
            self._now["confusions"] = [[order[a], order[b], count] for a, b, count in confusions]
            self._now["taken"] = [[order[a], order[b], count] for a, b, count in taken]

        # Every class of the stream, all as candidates: those not seen yet are known by name alone.
        unseen = order[len(learner.classes) :]
        names = dict(zip(unseen, stream.data.texts_of(unseen), strict=True))
        zero_shot: dict[str, float | None]
        if names:
            codes = code_of[stream.data.test.codes]
            hit = metrics.hits(learner.scores(stream.data.test.images, names).cpu(), codes)
            old = codes < len(learner.classes)
            a_s, a_u = metrics.accuracy(hit[old]), metrics.accuracy(hit[~old])
            zero_shot = {"seen": a_s, "unseen": a_u, "harmonic": metrics.harmonic_mean(a_s, a_u)}
        else:
            zero_shot = {"seen": after["curve"][-1], "unseen": None, "harmonic": None}
        if self.pairs:
            cosines = learner.match_pairs(self.pairs.images, self.pairs.texts)
            zero_shot["matching"] = metrics.matching_score(cosines)
        for name, value in zero_shot.items():
            after[name].append(value)

    def record(self) -> Record:
        """The result, all that is needed to draw any table of it later."""
        learner, stream, after = self.learner, self.stream, self._after
        matrix = after["accuracy_matrix"]
        record = {
            "method": self.method,
            "data": stream.data.name,
            "fingerprint": stream.data.fingerprint,
            "encoder": stream.data.metadata.get("encoder"),
            "protocol": stream.protocol,
            "sizes": list(stream.sizes),
            "order_seed": stream.order_seed,
            "seed": self.seed,
            "curve": self.curve,
            "average": metrics.average(self.curve),
            "last": self.curve[-1],
            "top5_curve": after["top5_curve"],
            "forgetting": metrics.forgetting(matrix),
            "backward_transfer": metrics.backward_transfer(matrix),
            "accuracy_matrix": matrix,
            **self._now,
            "zero_shot": {
                name: after[name]
                for name in ("seen", "unseen", "harmonic", "matching")
                if name in after
            },
            "pairs": str(self.pairs) if self.pairs else None,
            "seconds": sum(after["seconds"]),
            "task_seconds": after["seconds"],
            "exemplars": len(learner.exemplars),
            "exemplar_budget": str(learner.exemplars.budget),
            "trainable_parameters": learner.trainable_parameters,
            "total_parameters": learner.total_parameters,
            "inference_parameters": learner.inference_parameters,
            "kept_bytes": learner.kept_bytes,
            "device": _device_name(learner.device),
            "versions": {
                "proof": proof.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "key": self.key,
        }
        return {**_rounded(record), "options": dataclasses.asdict(learner.options)}

    def save(self, path: Path) -> None:
        """Write the state after the tasks done, so that `resume` can go on from there."""
        progress = {
            "key": self.key,
            "classes": self.learner.classes,
            "tasks": self.learner.tasks,
            "after": self._after,
            "now": self._now,
        }
        with replacing(path) as partial:
            save_file(self.learner.state(), partial, metadata={"run": json.dumps(progress)})

    def resume(self, path: Path) -> None:
        """Go on from a file that `save` wrote for this very run."""
        try:
            with safe_open(path, framework="pt") as file:
                progress = json.loads((file.metadata() or {}).get("run", "{}"))
                state = {name: file.get_tensor(name) for name in file.keys()}
        except (SafetensorError, OSError, json.JSONDecodeError) as error:
            raise ProofError(f"{path}: not a checkpoint that can be read: {error}") from None
        if progress.get("key") != self.key:
            raise ProofError(
                f"{path}: the checkpoint of another run: remove it or choose another folder"
            )
        self.learner.restore(state, progress["classes"], progress["tasks"])
        self._after, self._now = progress["after"], progress["now"]


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; the latter is 0 for a single value."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    return mean, (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' if threads > 1 else ''}"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
