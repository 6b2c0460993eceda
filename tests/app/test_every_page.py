"""Every page opens: with each sample, with a file of only logits and labels, and without any data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import sample_logits
from pages.shared import datasets
from pages.shared.navigation import ORDER, PAGES
from pages.shared.session import LoadedDataset
from smart_core.data.logitset import LogitSet, Part
from tests.app.driver import open_page
from tests.conftest import long_but

TITLES = {file: title for pages in PAGES.values() for file, title in pages.items()}


def visited(app: AppTest) -> Iterator[str]:
    """Open every page in the order of the menu; each has its title, its code and no error."""
    for file in ORDER:
        app.switch_page(file).run()
        assert not app.exception, file
        assert not app.error, (file, [box.value for box in app.error])
        assert app.title[0].value == TITLES[file]
        assert any(box.label == "Show the Python for this view" for box in app.expander), file
        yield file


@pytest.mark.parametrize(
    "sample", long_but("cifar10", "digits", "languages_choices", "digits_corrupted")(datasets.samples())
)
def test_with_each_sample(sample: str) -> None:
    app = open_page("start", sample)
    for file in visited(app):
        assert app.selectbox(key="data").value == sample, file


def test_with_only_logits_and_labels() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 300)
    logits = (generator.normal(size=(300, 3)) + 2 * np.eye(3)[labels]).astype(np.float32)
    bare = LogitSet("bare", Part(logits[:150], labels[:150]), Part(logits[150:], labels[150:]))
    app = open_page("start")
    app.session_state["session"].datasets["0123456789ab"] = LoadedDataset(bare, "bare", {"whole": ["bare.npz"]})
    app.run().selectbox(key="data").set_value("0123456789ab").run()
    assert list(visited(app)) == ORDER


def test_with_no_data_every_page_leads_to_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sample_logits, "path", lambda name: tmp_path / f"{name}.npz")
    app = open_page("start", "")
    assert not app.exception
    assert not app.error
    assert app.title[0].value == "Start"
    for file in ORDER[1:]:
        app.switch_page(file).run()
        assert not app.exception, file
        assert app.title[0].value == "Start", file
        assert "no data set yet" in app.info[0].value, file
