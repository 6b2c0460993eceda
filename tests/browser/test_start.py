"""Start in a real browser: uploads, a bad file, and a link that waits for its file."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.data.containers import hdf5

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 3, 606)
    logits = 3 * rng.normal(size=(606, 3)).astype(np.float32) + 2 * np.eye(3, dtype=np.float32)[labels]
    return {"logits": logits, "labels": labels}


def file(name: str, **arrays: np.ndarray) -> dict[str, Any]:
    stream = io.BytesIO()
    if name.endswith(".npy"):
        np.save(stream, next(iter(arrays.values())))
    else:
        np.savez(stream, **arrays)
    return {"name": name, "mimeType": "application/octet-stream", "buffer": stream.getvalue()}


def drop(seen: Visit, *files: dict[str, Any], zone: str = "start-files") -> None:
    seen.page.locator(f".st-key-{zone} input[type=file]").set_input_files(list(files))


def expect_in_view(seen: Visit, title: str, judged_on: int) -> None:
    sidebar = seen.page.get_by_test_id("stSidebar")
    expect(sidebar.get_by_text(f"tested on {judged_on:,}")).to_be_attached()
    expect(sidebar.locator(".st-key-data input")).to_have_value(title)


def test_a_bundle_two_files_and_a_bad_one(server: str, visit: Open, arrays: dict[str, np.ndarray]) -> None:
    seen = visit(f"{server}/start")
    sides = {f"{side}_{name}": array[part] for name, array in arrays.items() for side, part in PARTS.items()}
    drop(seen, file("bundle.npz", **sides))
    expect_in_view(seen, "bundle", 404)
    expect(seen.page.get_by_role("heading", level=4).first).to_contain_text("bundle. ")
    seen.idle()
    seen.picture("start-1280-light")

    again = visit(f"{server}/start")
    drop(again, file("a_logits.npy", logits=arrays["logits"]), file("a_labels.npy", labels=arrays["labels"]))
    expect_in_view(again, "a", 303)
    again.idle()
    drop(again, {"name": "broken.npz", "mimeType": "application/octet-stream", "buffer": b"PK\3\4 not really"})
    expect(again.page.get_by_role("alert").filter(has_text="broken.npz")).to_be_visible()
    expect_in_view(again, "a", 303)
    seen.clean()
    again.clean()


def test_one_of_several_experiments_and_a_folder(
    server: str, visit: Open, arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    experiments = {f"cifar10/{model}/{name}": array for model in ("resnet", "vit") for name, array in arrays.items()}
    seen = visit(f"{server}/start")
    drop(seen, {"name": "benchmark.h5", "mimeType": "application/x-hdf5", "buffer": hdf5(experiments)})
    expect(seen.page.get_by_text("holds 2 experiments")).to_be_visible()
    seen.page.locator(".st-key-start-group input").click()
    seen.page.get_by_role("option", name="cifar10/vit").click()
    expect_in_view(seen, "cifar10/vit", 303)
    seen.clean()

    for number, rows in enumerate((slice(0, 400), slice(400, None))):
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}_{number}.npy", array[rows])
    again = visit(f"{server}/start")
    again.page.get_by_text("A folder of files").click()
    again.page.locator(".st-key-start-folder input[type=file]").set_input_files(tmp_path)
    expect_in_view(again, tmp_path.name, 303)
    again.clean()


def test_a_file_dropped_on_any_page_is_opened(server: str, visit: Open, arrays: dict[str, np.ndarray]) -> None:
    seen = visit(f"{server}/hardness?data=digits")
    content = list(file("dropped.npz", **arrays)["buffer"])
    seen.page.evaluate(
        """content => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([new Uint8Array(content)], "dropped.npz"));
            const main = document.querySelector("[data-testid=stMain]");
            for (const type of ["dragover", "drop"])
                main.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        content,
    )
    expect_in_view(seen, "dropped", 303)
    expect(seen.page.get_by_role("heading", name="Start", exact=True)).to_be_visible()
    seen.idle()
    seen.page.get_by_role("button", name="Rename", exact=True).click()
    seen.page.get_by_label("Name of the data set").fill("My model")
    seen.page.keyboard.press("Enter")
    expect_in_view(seen, "My model", 303)
    seen.clean()


def test_open_file_opens_the_file_dialog(server: str, visit: Open, arrays: dict[str, np.ndarray]) -> None:
    seen = visit(f"{server}/guide?data=digits")
    expect(seen.page.get_by_text("sample", exact=True)).to_be_visible()
    with seen.page.expect_file_chooser() as asked:
        seen.page.get_by_role("button", name="Open file").press("Enter")
    asked.value.set_files([file("chosen.npz", **arrays)])
    expect_in_view(seen, "chosen", 303)
    seen.clean()


PARTS = {"val": slice(0, 202), "test": slice(202, None)}


def test_a_link_opens_the_same_view_once_its_file_is_there(
    server: str, visit: Open, arrays: dict[str, np.ndarray]
) -> None:
    first = visit(f"{server}/start?bins=20")
    drop(first, file("mine.npz", **arrays))
    expect_in_view(first, "mine", 303)
    first.idle()  # until then the page grows above the switch, and a click goes astray
    first.page.locator(".st-key-split").get_by_text("Custom split").click()
    expect(first.page.get_by_test_id("stSidebar").get_by_text("seed 0")).to_be_attached()
    first.idle()
    first.page.get_by_role("button", name="Diagnose the model", exact=True).click()
    expect(first.page.get_by_role("heading", name="Diagnose", exact=True)).to_be_visible()
    first.idle()
    first.page.get_by_role("button", name="Copy link").click()
    link = first.page.get_by_test_id("stPopoverBody").get_by_test_id("stCode").inner_text().strip()
    shown = first.page.get_by_role("heading", level=4).first.inner_text()

    same = visit(link)
    expect(same.page.get_by_role("heading", level=4).first).to_have_text(shown)
    # on another server, which does not have the workspace
    second = visit(re.sub("workspace=[^&]*", f"workspace={'x' * 32}", link))
    expect(second.page.get_by_text("This link needs a file that is not in this workspace")).to_be_visible()
    drop(second, file("another_name.npz", **arrays))
    expect(second.page.get_by_role("heading", name="Diagnose", exact=True)).to_be_visible()
    expect_in_view(second, "another_name", 303)
    expect(second.page.get_by_test_id("stSidebar").get_by_text("seed 0")).to_be_attached()
    expect(second.page.get_by_role("heading", level=4).first).to_have_text(shown)
    second.idle()
    opened, asked = urlsplit(second.page.url), urlsplit(link)
    assert opened.path == asked.path
    view, asked_view = parse_qs(opened.query), parse_qs(asked.query)
    assert view.pop("workspace") not in (asked_view.pop("workspace"), ["x" * 32])
    assert view == asked_view
    first.clean()
    second.clean()
