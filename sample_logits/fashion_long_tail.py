"""Fashion-MNIST with a long tail: class counts fall as 1 / k^2 in training and validation; test is balanced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sample_logits import fashion, images, stages
from sample_logits.bundles import Arrays
from sample_logits.training import Recipe, Say

MOST = 6000
"""Images of the first class, all there are."""
COUNTS = tuple(round(MOST / rank**2) for rank in range(1, len(fashion.CLASSES) + 1))
"""Images of each class, in the order of the labels: the last has a hundredth of the first."""

SAMPLE = replace(
    fashion.SAMPLE,
    name="fashion_long_tail",
    held_out_per_class=tuple(round(count / 3) for count in COUNTS),
    recipe=Recipe(epochs=30, pad=0, flip=False),
)
"""A third of each class is held out; the epochs are short and so there are more of them."""


def bundles(say: Say = print) -> Iterator[tuple[str, Arrays]]:
    """Thin out, train, extract."""
    data = images.thinned(fashion.load(), COUNTS, seed=0)
    yield SAMPLE.name, stages.clean(SAMPLE, data, stages.fit(SAMPLE, data, say))
