"""The encoder behind a classifier, found and loaded when there is something to encode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from proof.datasets.base import DEFAULT_TEMPLATES, readable
from proof.embed import class_texts
from proof.encoders import Encoder, load_encoder
from proof.errors import ProofError


@dataclass(frozen=True)
class Source:
    """Where a model's embeddings come from; what is not known, or not yet, is None."""

    encoder: str | None  # its name
    fingerprint: str | None = None  # of its weights
    preprocess: str = "squash"  # as it was chosen
    preprocessing: str | None = None  # in words
    template: str = DEFAULT_TEMPLATES[0]

    def agreed(self, other: Source) -> Source:
        """What two say together. Embeddings of different encoders do not mix."""
        for what in ("fingerprint", "preprocessing"):
            ours, theirs = getattr(self, what), getattr(other, what)
            if ours and theirs and ours != theirs:
                raise ProofError(
                    f"the classifier was taught with encoder '{self.encoder}', {what} {ours[:24]}, "
                    f"and this is of '{other.encoder}', {what} {theirs[:24]}: embeddings of "
                    f"different encoders do not mix"
                )
        return replace(
            self,
            fingerprint=self.fingerprint or other.fingerprint,
            preprocessing=self.preprocessing or other.preprocessing,
        )

    def and_file(self, metadata: Mapping[str, str]) -> Source:
        """With what an embeddings file says of its own encoder."""
        if "fingerprint" not in metadata:
            return self
        encoder, words = metadata.get("encoder"), metadata.get("preprocess")
        return self.agreed(
            replace(self, encoder=encoder, fingerprint=metadata["fingerprint"], preprocessing=words)
        )


class LazyEncoder:
    """An encoder by name, or one that is loaded already, or none; and what a model knows of it."""

    def __init__(self, encoder: str | Encoder | None, source: Source, device: str) -> None:
        self.source = source
        self._encoder, self._device = encoder, device
        self._opened: Encoder | None = None

    @property
    def opener(self) -> Callable[[], Encoder] | None:
        """What gives the encoder; None where there is none."""
        return None if self._encoder is None else self.open

    def open(self) -> Encoder:
        """The encoder itself: it must be the one that the model was taught with."""
        if self._opened is None:
            assert self._encoder is not None
            encoder = self._encoder
            if isinstance(encoder, str):
                preprocess = self.source.preprocess
                encoder = load_encoder(encoder, preprocess=preprocess, device=self._device)
            else:
                preprocess = "squash" if encoder.preprocessing.mode == "squash" else "model"
            words = str(encoder.preprocessing)
            found = Source(encoder.name, encoder.fingerprint, preprocess, words)
            self.source = replace(
                self.source.agreed(found), encoder=encoder.name, preprocess=preprocess
            )
            self._opened = encoder
        return self._opened

    def texts(self, labels: Sequence[str]) -> dict[str, Tensor]:
        """A unit vector (d,) for each class: its readable name in the template."""
        names = [readable(label) for label in labels]
        vectors = class_texts(names, [self.source.template], self.open())
        return dict(zip(labels, vectors, strict=True))
