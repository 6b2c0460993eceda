"""Start without a browser: samples, uploads, fixes, roles, files on the server, splits and bad files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared import workspace
from pages.shared.uploads import FOLDER_VARIABLE
from smart_core.data.sandbox import Sandbox
from smart_core.formatting import percent
from tests.app.driver import ece_of, open_page, unlinked
from tests.conftest import ROOT
from tests.data.containers import hdf5

ROWS, CLASSES = 400, 4


@pytest.fixture
def app() -> AppTest:
    return open_page("start")


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, CLASSES, ROWS)
    logits = rng.normal(size=(ROWS, CLASSES)).astype(np.float32) + 2 * np.eye(CLASSES, dtype=np.float32)[labels]
    return {"logits": logits, "labels": labels}


def npz(**content: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **content)
    return stream.getvalue()


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def drop(app: AppTest, *files: tuple[str, bytes], key: str = "start-files") -> AppTest:
    app.file_uploader(key=key).set_value([(name, content, "application/octet-stream") for name, content in files])
    app.run()
    assert not app.exception
    return app


def in_view(app: AppTest) -> Any:
    """Return the selected data set."""
    return app.session_state["session"].datasets[app.selectbox(key="data").value].data


def says(app: AppTest, text: str) -> bool:
    boxes = [*app.markdown, *app.info, *app.error, *app.caption]
    return any(text in unlinked(box.value) for box in boxes)


def sample_ece() -> float:
    """Return the ECE of the uncalibrated digits network on test."""
    with np.load(sample_logits.path("digits")) as bundle:
        return ece_of(softmax(bundle["test_logits"].astype(np.float64), axis=1), bundle["test_labels"])


def test_one_of_several_experiments_is_chosen(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    experiments = {f"{model}/{name}": array for model in ("resnet", "vit") for name, array in arrays.items()}
    experiments["vit/logits"] = arrays["logits"] + 1
    drop(app, ("benchmark.h5", hdf5(experiments)))
    assert next(iter(app.info)).value.endswith("'resnet', 'vit'; choose one below.")
    assert not app.error
    assert app.selectbox(key="start-group").value is None
    for number, model in enumerate(("vit", "resnet"), 1):
        app.selectbox(key="start-group").set_value(model).run()
        assert not app.exception
        assert in_view(app).name == model
        assert len(app.session_state["session"].datasets) == number
        assert app.selectbox(key="start-group").value == model


def test_a_folder_of_pieces(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    files = [
        (f"run/{name}_{number}.npy", npy(array[number * 100 : (number + 1) * 100]))
        for number in range(4)
        for name, array in arrays.items()
    ]
    drop(app, *files, key="start-folder")
    assert in_view(app).name == "run"
    assert in_view(app).classes == CLASSES
    assert any("joined in this order" in box.value for box in app.info)


def test_a_sample_opens_with_one_click(app: AppTest) -> None:
    other = next(name for name in ("digits_corrupted", "cifar10") if sample_logits.path(name).exists())
    app.button(key=f"open-{other}").click().run()
    assert app.selectbox(key="data").value == other
    assert app.button(key=f"open-{other}").disabled


def test_the_verdict_is_that_of_the_file(app: AppTest) -> None:
    (sentence,) = [line.value for line in app.markdown if line.value.startswith("#### Digits. ")]
    assert f"ECE of {percent(sample_ece())}" in sentence
    assert says(app, "(one temperature for all samples), ")


def test_a_sample_says_where_one_temperature_is_not_enough() -> None:
    opened = open_page("start", "fashion_ls_0_05")
    data = sc.load("sample:fashion_ls_0_05")
    after = sc.evaluate(sc.TS().fit_part(data.validation), data.test)
    lowest = after.margins <= np.quantile(after.margins, 1 / 6, method="inverted_cdf")
    claimed, right = after.confidence[lowest].mean(), after.correct[lowest].mean()
    assert says(opened, f": mean confidence {claimed:.0%}, accuracy {right:.0%}.")


def test_a_bundle_is_loaded(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    parts = {
        f"{side}_{name}": array[rows]
        for name, array in arrays.items()
        for side, rows in (("val", slice(0, 150)), ("test", slice(150, None)))
    }
    drop(app, ("mine.npz", npz(**parts)))
    data = in_view(app)
    np.testing.assert_array_equal(data.test.logits, arrays["logits"][150:])
    assert says(app, "fitted on **150**, tested on **250**")
    assert any(line.value.startswith("#### mine. ") for line in app.markdown)
    table = next(frame.value for frame in app.dataframe if "array" in frame.value)
    assert dict(zip(table["array"], table["role"], strict=True)) == {name: name for name in parts}
    app.button(key="start-diagnose").click().run()
    assert app.title[0].value == "Diagnose"
    assert in_view(app) is data


def test_two_files_are_one_data_set(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    drop(app, ("net_logits.npy", npy(arrays["logits"])), ("net_labels.npy", npy(arrays["labels"])))
    data = in_view(app)
    assert len(data.validation) + len(data.test) == ROWS
    code = app.main.code[-1].value
    assert 'sc.load(["net_logits.npy", "net_labels.npy"])' in code


def test_separate_validation_and_test_files(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    app.toggle(key="start-apart").set_value(True).run()
    one = npz(**{name: array[:100] for name, array in arrays.items()})
    two = npz(**{name: array[100:] for name, array in arrays.items()})
    drop(app, ("same_name.npz", one), key="start-val")
    assert says(app, "Now add the test file.")
    assert app.selectbox(key="data").value == "digits"
    drop(app, ("same_name.npz", two), key="start-test")
    data = in_view(app)
    np.testing.assert_array_equal(data.validation.labels, arrays["labels"][:100])
    np.testing.assert_array_equal(data.test.labels, arrays["labels"][100:])


def test_a_bad_file_gives_one_sentence_and_changes_nothing(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    drop(app, ("good.npz", npz(**arrays)))
    good = app.selectbox(key="data").value
    drop(app, ("bad.npz", b"no archive at all"))
    (error,) = [box.value for box in app.error]
    assert "bad.npz" in error
    assert "Traceback" not in error
    assert app.selectbox(key="data").value == good
    assert says(app, "good is still selected")


def test_an_uploaded_data_set_is_kept_while_another_page_is_open(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    drop(app, ("mine.npz", npz(**arrays)))
    key = app.selectbox(key="data").value
    app.switch_page("pages/guide.py").run()
    app.switch_page("pages/start.py").run()
    assert app.selectbox(key="data").value == key
    assert len(in_view(app).test) == ROWS // 2


def test_labels_that_may_start_at_one_are_fixed_with_one_click(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    kept = arrays["labels"] < CLASSES - 1
    labels = arrays["labels"][kept] + 1  # 1, 2, 3 of four classes: are they counted from 0 or from 1?
    drop(app, ("shifted.npz", npz(logits=arrays["logits"][kept], labels=labels)))
    before = in_view(app)
    assert set(before.validation.labels) == {1, 2, 3}
    (cure,) = [button for button in app.button if button.key and button.key.startswith("start-cure-")]
    cure.click().run()
    after = in_view(app)
    np.testing.assert_array_equal(after.validation.labels, before.validation.labels - 1)
    np.testing.assert_array_equal(after.validation.logits, before.validation.logits)
    assert "labels_start_at=1" in app.main.code[-1].value
    assert app.query_params["read"] == '{"labels_start_at":1}'


def test_a_fix_that_fails_changes_nothing(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    drop(app, ("one.npz", npz(logits=arrays["logits"], labels=arrays["labels"] + 1)))
    understood = in_view(app)
    assert set(understood.test.labels) == {0, 1, 2, 3}
    (cure,) = [button for button in app.button if button.key and button.key.startswith("start-cure-")]
    cure.click().run()
    assert len(app.error) == 1
    assert in_view(app) is understood
    app.button(key="start-as-before").click().run()
    assert not app.error
    assert in_view(app).content_hash == understood.content_hash


def test_probabilities_are_read_as_logits_with_one_click_and_back(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    probabilities = softmax(arrays["logits"].astype(np.float64), axis=1)
    drop(app, ("soft.npz", npz(probs=probabilities, labels=arrays["labels"])))
    understood = in_view(app)
    rows = np.concatenate([understood.validation.logits, understood.test.logits])
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1, atol=1e-5)
    (cure,) = [button for button in app.button if button.key and button.key.startswith("start-cure-")]
    cure.click().run()
    read = in_view(app)
    rows = np.concatenate([read.validation.logits, read.test.logits])
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-5)
    assert len(app.session_state["session"].datasets) == 1  # the same files, read once
    app.button(key="start-understand").click().run()
    assert in_view(app).content_hash == understood.content_hash


def test_roles_are_chosen_in_a_form(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    reversed_labels = arrays["labels"][::-1].copy()
    drop(app, ("odd.npz", npz(alpha=arrays["logits"], beta=arrays["labels"], gamma=reversed_labels)))
    assert app.error  # two arrays could be the labels
    assert app.selectbox(key="data").value == "digits"
    places = [box.label for box in app.selectbox if box.key and box.key.startswith("start-role-")]
    gamma = next(number for number, label in enumerate(places) if "gamma" in label)
    app.selectbox(key=f"start-role-{gamma}").set_value("labels")
    app.button(key="start-roles-go").click().run()
    assert not app.error
    data = in_view(app)
    order = np.lexsort(arrays["logits"].T)
    rows = np.concatenate([data.validation.logits, data.test.logits])
    labels = np.concatenate([data.validation.labels, data.test.labels])
    np.testing.assert_array_equal(labels[np.lexsort(rows.T)], reversed_labels[order])


def test_two_arrays_with_one_role_are_refused(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    drop(app, ("odd.npz", npz(alpha=arrays["logits"], beta=arrays["labels"], gamma=arrays["labels"][::-1])))
    numbers = [box.key for box in app.selectbox if box.key and box.key.startswith("start-role-")]
    for key in numbers:
        app.selectbox(key=key).set_value("labels")
    app.button(key="start-roles-go").click().run()
    assert any("Two arrays have the role labels" in box.value for box in app.error)


def test_an_upload_is_parsed_once(arrays: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    call = Sandbox.call

    def counted(self: Sandbox, task: str, arguments: Any = None) -> Any:
        if task == "open":
            parsed.extend(name for name, *_ in arguments["files"])
        return call(self, task, arguments)

    monkeypatch.setattr(Sandbox, "call", counted)
    content = npz(probs=softmax(arrays["logits"], axis=1), labels=arrays["labels"])
    first = drop(open_page("start"), ("soft.npz", content))
    assert parsed.count("soft.npz") == 1
    first.button(key="start-cure-0").click().run()
    key = first.selectbox(key="data").value
    first.button(key="start-understand").click().run()
    assert parsed.count("soft.npz") == 1  # other options read the same parsed file
    second = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    second.query_params["data"], second.query_params["read"] = key, '{"values":"logits"}'
    second.switch_page("pages/diagnose.py").run()  # leads to Start
    drop(second.switch_page("pages/start.py").run(), ("waited.npz", content))
    assert second.selectbox(key="data").value == key
    assert parsed.count("waited.npz") == 1  # also with the options of a link
    assert "document" not in second.session_state  # the link led to another page
    drop(open_page("start", key, read='{"transposed":true}'), ("other.npz", content))
    assert parsed.count("other.npz") == 1  # read with the options of the link, and then without


def test_rows_that_are_nearly_probabilities_are_fixed_with_one_click(
    app: AppTest, arrays: dict[str, np.ndarray]
) -> None:
    nearly = softmax(arrays["logits"], axis=1)
    nearly[7] *= 0.5
    drop(app, ("nearly.npz", npz(probs=nearly, labels=arrays["labels"])))
    (error,) = [box.value for box in app.error]
    assert error.endswith("correct these rows, or choose logits or probabilities below.")
    next(button for button in app.button if button.label == "These are probabilities").click().run()
    assert not app.error
    assert len(in_view(app).test) == ROWS // 2


def test_a_custom_split(app: AppTest) -> None:
    app.toggle(key="start-by-hand-digits").set_value(True).run()
    app.slider(key="start-share-digits").set_value(25).run()
    app.number_input(key="start-seed-digits").set_value(3).run()
    with np.load(sample_logits.path("digits")) as bundle:
        rows = len(bundle["val_labels"]) + len(bundle["test_labels"])
    assert says(app, f"fitted on **{round(0.25 * rows):,}**, tested on **{rows - round(0.25 * rows):,}**")
    assert says(app, "custom split: 25% for validation, seed 3")
    app.switch_page("pages/diagnose.py").run()
    assert any("seed 3" in line.value for line in app.sidebar.caption)
    app.switch_page("pages/start.py").run()
    assert app.slider(key="start-share-digits").value == 25
    app.toggle(key="start-by-hand-digits").set_value(False).run()
    assert not says(app, "custom split:")


def test_a_file_of_the_server_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict[str, np.ndarray]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "large.npz").write_bytes(npz(**arrays))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    app = open_page("start")
    app.multiselect(key="start-server").set_value(["deep/large.npz"]).run()
    app.button(key="start-load").click().run()
    assert not app.exception
    assert len(in_view(app).test) == ROWS // 2
    assert str(tmp_path) not in app.main.code[-1].value


def test_without_a_folder_no_files_are_listed(app: AppTest) -> None:
    assert not [box for box in app.multiselect if box.key == "start-server"]


def test_a_link_opens_once_its_file_is_uploaded(arrays: dict[str, np.ndarray]) -> None:
    first = drop(open_page("start"), ("mine.npz", npz(**arrays)))
    key = first.selectbox(key="data").value
    second = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    second.query_params["data"] = key
    second.query_params["split"] = "0.25-7"
    second.switch_page("pages/diagnose.py").run()
    assert second.title[0].value == "Start"
    second.switch_page("pages/start.py").run()
    assert says(second, f"This link needs a file that is not in this workspace (fingerprint **{key}**)")
    drop(second, ("other.npz", npz(logits=arrays["logits"] + 1, labels=arrays["labels"])))
    assert second.title[0].value == "Start"  # another file is welcome, but does not open the view
    assert says(second, "This link needs a file that is not in this workspace")
    drop(second, ("renamed.npz", npz(**arrays)))
    assert second.title[0].value == "Diagnose"
    assert second.selectbox(key="data").value == key
    assert says(second, f"fitted on **{ROWS // 4}**, tested on **{ROWS - ROWS // 4}**")


def test_names_from_files_are_escaped(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    drop(app, ("**b** [x](http://y) <i>.npz", npz(**arrays)))
    shown = [line.value for line in app.markdown if "fingerprint" not in line.value and "b" in line.value]
    assert all("**b**" not in text and "](http" not in text for text in shown)


def test_a_full_session_reports_the_data_set_that_it_removes(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    for number in range(9):
        drop(app, (f"set{number}.npz", npz(logits=arrays["logits"] + number, labels=arrays["labels"])))
        assert bool(app.warning) is (number == 8)
    assert app.warning[0].value.startswith("set0 was removed")
    assert len(app.session_state["session"].datasets) == 8
    app.run()
    assert not app.warning


def test_files_of_the_same_name_get_different_titles(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    drop(app, ("same.npz", npz(**arrays)))
    drop(app, ("same.npz", npz(logits=arrays["logits"] * 2, labels=arrays["labels"])))
    assert {"same", "same (2)"} <= set(app.selectbox(key="data").options)


def test_a_workspace_is_restored(app: AppTest, arrays: dict[str, np.ndarray]) -> None:
    other = drop(open_page("start"), ("mine.npz", npz(**arrays)))
    session = other.session_state["session"]
    file = workspace.to_bytes(workspace.gather(session, {"data": other.selectbox(key="data").value})[0])
    app.file_uploader(key="start-restore").set_value(("w.zip", file, "application/zip")).run()
    assert in_view(app).content_hash == in_view(other).content_hash


def test_the_code_runs(app: AppTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    exec(app.main.code[-1].value, {})
    printed = float(capsys.readouterr().out.split("ECE")[-1])
    assert printed == pytest.approx(sample_ece(), abs=1e-6)
