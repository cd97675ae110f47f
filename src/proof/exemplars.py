"""Exemplars: the few pictures of old classes that are kept for rehearsal, as embeddings."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from proof.errors import ProofError


@dataclass(frozen=True)
class Budget:
    """How many exemplars may be kept: so many for each class, or so many in all."""

    per_class: int | None = None
    total: int | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `20/class`, `2000` or `0`.

        >>> Budget.parse("20/class").of_each(100), Budget.parse("2000").of_each(100)
        (20, 20)
        """
        match = re.fullmatch(r"(\d+)(/class)?", text.strip())
        if not match:
            raise ProofError(
                f"exemplars '{text}': expected 20/class, or 2000 for all classes together"
            )
        count = int(match[1])
        return cls(per_class=count) if match[2] else cls(total=count)

    def of_each(self, classes: int) -> int:
        """How many exemplars of each class may be kept once `classes` are known."""
        if self.per_class is not None:
            return self.per_class
        return (self.total or 0) // max(classes, 1)

    def __str__(self) -> str:
        return f"{self.per_class}/class" if self.per_class is not None else str(self.total or 0)


def herd(images: Tensor, codes: Tensor, classes: int, count: int) -> list[Tensor]:
    """Herding (Welling 2009, as in iCaRL): for each class the rows of its exemplars, best first.

    Each exemplar in turn brings the mean of those chosen closest to the mean of the class, on unit
    vectors. So the first k of the list are the best k, and a list is shortened by cutting its end.
    All classes are herded at once; one with fewer than `count` pictures gives all it has.
    """
    device = images.device
    members = [(codes == code).nonzero()[:, 0] for code in range(classes)]
    sizes = torch.tensor([len(rows) for rows in members], device=device)
    count = min(count, int(sizes.max()))
    # Classes side by side, (classes, largest class, d): short ones are filled up and masked.
    rows = torch.nn.utils.rnn.pad_sequence(members, batch_first=True)
    free = torch.arange(rows.shape[1], device=device) < sizes[:, None]
    unit = F.normalize(images[rows].float(), dim=-1) * free[..., None]
    mean = unit.sum(1) / sizes[:, None]
    total = torch.zeros_like(mean)
    every = torch.arange(classes, device=device)
    chosen = torch.zeros(classes, count, dtype=torch.long, device=device)
    for k in range(count):
        # The nearest to (k + 1) mean - total; all lengths are one, so the largest product.
        wanted = (k + 1) * mean - total
        fit = torch.bmm(unit, wanted[..., None])[..., 0].masked_fill(~free, -torch.inf)
        best = fit.argmax(1)
        chosen[:, k] = rows[every, best]
        total += unit[every, best]
        free[every, best] = False
    return [chosen[code, : int(size)] for code, size in enumerate(sizes.clamp(max=count))]


class Exemplars:
    """The exemplars of all classes known so far, in the order of the class list."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._of_class: list[Tensor] = []

    def __len__(self) -> int:
        return sum(map(len, self._of_class))

    def add(self, images: Tensor, codes: Tensor, classes: int) -> None:
        """Take exemplars of `images`, and shorten those of other classes.

        Codes count on from the known classes. More pictures of a known class are herded together
        with its exemplars.
        """
        count = self.budget.of_each(classes)
        old = self._of_class + [images[:0]] * (classes - len(self._of_class))
        self._of_class = [rows[:count] for rows in old]
        if not count:
            return
        present = codes.unique()
        again = [(int(code), old[int(code)]) for code in present if len(old[int(code)])]
        images = torch.cat([images, *(rows for _, rows in again)])
        codes = torch.cat([codes, *(codes.new_full((len(rows),), c) for c, rows in again)])
        places = torch.searchsorted(present, codes)
        for code, chosen in zip(
            present.tolist(), herd(images, places, len(present), count), strict=True
        ):
            self._of_class[code] = images[chosen].clone()

    def drop(self, code: int) -> None:
        """Remove the exemplars of a class."""
        del self._of_class[code : code + 1]

    def or_else(self, prototypes: Tensor) -> tuple[Tensor, Tensor]:
        """All exemplars and their classes; a class without any is stood for by its prototype."""
        every = self._of_class + [prototypes[:0]] * (len(prototypes) - len(self._of_class))
        rows = [kept if len(kept) else prototypes[c : c + 1] for c, kept in enumerate(every)]
        codes = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(r) for r in rows]))
        return torch.cat(rows), codes.to(prototypes.device)

    def tensors(self) -> tuple[Tensor, Tensor] | None:
        """All exemplars (n, d) and their classes (n,), or None if there are none."""
        if not len(self):
            return None
        images = torch.cat(self._of_class)
        codes = [torch.full((len(rows),), code) for code, rows in enumerate(self._of_class)]
        return images, torch.cat(codes).to(images.device)

    def state(self) -> dict[str, Tensor]:
        """The exemplars as tensors to keep in a file."""
        if not self._of_class:
            return {}
        return {
            "exemplars": torch.cat(self._of_class),
            "exemplar_counts": torch.tensor([len(rows) for rows in self._of_class]),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
        counts = state["exemplar_counts"].tolist() if "exemplars" in state else []
        self._of_class = list(state["exemplars"].split(counts)) if counts else []
