"""Save a session as one file and restore it: data sets, fits, leaderboard rows, settings, studies and the view."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages.shared import datasets, downloads, loading, session, undo, urls
from pages.shared.components import plain_text
from pages.shared.session import LeaderboardRow, LoadedDataset, Session, Split, Study
from smart_core import SMART, LogitSet
from smart_core.calibrators import get, is_method
from smart_core.calibrators.rules import Rule
from smart_core.data.saved import LONGEST_NAME
from smart_core.errors import LogitFileError, SmartError, WorkspaceError
from smart_core.evaluation import HEADLINE
from smart_core.experiments import MethodResult, SeedTable, Sensitivity, Shift, Traces
from smart_core.experiments.benchmark_result import Benchmark
from smart_core.export.workspace import Workspace, Writer, load_workspace, save_workspace
from smart_core.export.workspace_schema import (
    SCALAR,
    SENTENCE,
    a,
    array,
    by_key,
    check_fields,
    each,
    one_of,
    text,
    whole,
)
from smart_core.formatting import plural, printable
from smart_core.theory.playground import Playground

FILES = ("whole", "val", "test")
DISTANCES, ATTACKED = array("f", 1, 0, unknown=True), array("b", 1, 0, 1)

# names inside the file
ROWS = "rows"
STUDY = "study "


def draw_save() -> None:
    """Draw the button that downloads the session."""
    here = session.current()
    if here.original is not None:
        st.caption("A read-only link does not offer the workspace as a file: it has the raw logits.")
        return
    gathered, left_out = gather(here, urls.current_view())
    studies = len(here.studies) - len(left_out)
    counts = (len(here.datasets), "data set"), (len(here.fits), "fit"), (studies, "study")
    held = "".join(f"{plural(count, noun)}, " for count, noun in counts if count)
    st.markdown(f"**Save** {held}the leaderboards, the settings and the view in one file.")
    if left_out:
        st.caption(f"{plural(len(left_out), 'study')} cannot be saved and must be run again.")
    name = f"{downloads.file_stem(datasets.current_title(), 'workspace')}.zip"
    downloads.button("Download workspace", lambda: to_bytes(gathered), name, "export-workspace")


def draw_restore(key: str) -> None:
    """Draw the upload field of a saved workspace; an uploaded one is restored, and its view opens."""
    here = session.current()
    file = st.file_uploader("**Restore** a workspace that was saved on Export", key=key)
    if file is None:
        return
    if here.restored_upload == file.file_id:
        st.caption("The workspace is restored.")
        return
    undo.remember("restored workspace")
    try:
        with st.spinner("Restoring"):
            view = restore(file.getvalue(), here)
    except SmartError as error:
        undo.forget()
        st.error(f"{plain_text(str(error))} Nothing was changed.")
        return
    here.restored_upload = file.file_id
    urls.open_view(view)
    st.rerun()


def gather(here: Session, view: Mapping[str, str]) -> tuple[Workspace, list[str]]:
    """Return what a file saves of a session, and the names of the studies that it cannot save.

    Bundled samples are left out, unless a study refers to one.
    """
    sets = [own.data for own in here.datasets.values()]
    sets += [data for data in _sets_of_studies(here) if not any(data is known for known in sets)]
    studies, left_out = {}, []
    for name, study in here.studies.items():
        entry = {"result": study.result, "made_with": study.settings}
        try:
            Writer(sets).tree(entry, name)
            studies[f"{STUDY}{name}"] = entry
        except WorkspaceError:
            left_out.append(name)
    rows = {
        key: {"result": row.result, "settings": row.settings, "seeds": row.seeds, "bins": row.bins}
        for key, row in here.rows.items()
    }
    about = {
        "view": dict(view),
        "held": {
            key: {"title": own.title, "files": dict(own.files), "options": own.options}
            for key, own in here.datasets.items()
        },
        "splits": {key: [split.fraction, split.seed] for key, split in here.splits.items()},
        "settings": {method: dict(chosen) for method, chosen in here.settings.items()},
    }
    return Workspace(about, sets, dict(here.fits), {ROWS: rows, **studies}), left_out


def to_bytes(workspace: Workspace) -> bytes:
    """Return the content of the file."""
    stream = io.BytesIO()
    save_workspace(stream, workspace)
    return stream.getvalue()


def restore(file: bytes, here: Session) -> dict[str, str]:
    """Add the content of a file to a session and return the saved view.

    The session is changed only after the whole file has been read and checked.
    """
    workspace = load_workspace(file)
    try:
        for data in workspace.sets:
            loading.check_classes(data)
    except LogitFileError as error:
        raise WorkspaceError(error.problem, *error.fixes, file=error.file) from error
    try:
        about = workspace.view
        check_fields(about, VIEW, "view")
        sets = {datasets.key_of(data): data for data in workspace.sets}
        own = {key: _dataset(sets[key], entry) for key, entry in about["held"].items() if key in sets}
        splits = {key: Split.parse(fraction, seed) for key, (fraction, seed) in about["splits"].items()}
        for key in splits.keys() & own.keys():
            own[key].data.resplit(splits[key].fraction, splits[key].seed)  # a set of few rows may not allow it
        settings = {id: _settings(id, chosen) for id, chosen in about["settings"].items() if is_method(id)}
        rows = {key: _row(key, **entry) for key, entry in workspace.studies[ROWS].items()}
        studies = {
            name.removeprefix(STUDY): _study(name, **entry)
            for name, entry in workspace.studies.items()
            if name.startswith(STUDY)
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, SmartError) as error:
        raise WorkspaceError("The file is not a workspace or is damaged; use a file saved on Export.") from error
    here.datasets.update(own)
    here.splits.update(splits)
    here.settings.update(settings)
    here.fits.update(workspace.fits)
    here.rows.update(rows)
    here.studies.update(studies)
    view: dict[str, str] = about["view"]
    return view


VIEW = {
    "view": by_key(text(4000), text()),
    "held": by_key(a(dict), text()),
    "splits": by_key(a(list), text()),
    "settings": by_key(by_key(SCALAR, text()), text()),
}
HELD = {"title": SENTENCE, "files": by_key(each(text(4000)), one_of(FILES))}
ROW = {
    "result": a(MethodResult),
    "settings": by_key(SCALAR, text()),
    "seeds": whole(1, urls.MAX_SEEDS),
    "bins": whole(urls.MIN_BINS, urls.MAX_BINS),
}
PLAIN = Rule(
    lambda value: SCALAR.holds(value) or (isinstance(value, list | tuple) and all(map(SCALAR.holds, value))),
    "a number, text or a list of these",
)

STUDY_TABLES = {
    "sensitivity": (Sensitivity, "sigma", "delta"),
    "shift": (Shift, "method", "target"),
    "objectives": (SeedTable, "method", "objective"),
    "indicators": (SeedTable, "method", "indicator"),
    "efficiency": (SeedTable, "method", "size"),
}
"""Kind of a study -> the class of its table, its rows and its columns."""


def _dataset(data: LogitSet, entry: Mapping[str, Any]) -> LoadedDataset:
    """Return a data set; a file of an earlier version does not name the files that it was loaded from."""
    files = entry.get("files", {"whole": [data.name]})
    check_fields({**entry, "files": files}, HELD, "data set")
    return LoadedDataset(data, printable(entry["title"], LONGEST_NAME), files, loading.valid(entry["options"]))


def _settings(method: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method; raise an error here for invalid ones, and not in every later fit."""
    calibrator = get(method, **chosen)
    calibrator.check_settings()
    return {name: getattr(calibrator, name) for name in chosen}


def _row(key: str, result: MethodResult, **made_with: Any) -> LeaderboardRow:
    check_fields({"result": result, **made_with}, ROW, "leaderboard row")
    cells = [evaluation.cells for evaluation in result.evaluations if evaluation.cells is not None]
    if key.rpartition("/")[2] != result.id or any(sums.bins != made_with["bins"] for sums in cells):
        raise ValueError("a row does not agree with its key or its bins")
    return LeaderboardRow(result, _settings(result.id, made_with["settings"]), made_with["seeds"], made_with["bins"])


def _study(name: str, result: Any, made_with: Any) -> Study:
    """Return a study, if its result is what the page of its kind draws."""
    check_fields({"settings": made_with}, {"settings": by_key(PLAIN, text())}, "study")
    kind = name.partition("/")[2].partition(" {")[0]
    if name == f"{STUDY}benchmark":
        fine = isinstance(result, Benchmark)
    elif kind in STUDY_TABLES:
        of, rows, columns = STUDY_TABLES[kind]
        fine = type(result) is of and (result.row_name, result.column_name) == (rows, columns)
        fine = fine and result.metrics.keys() >= set(HEADLINE) and min(len(result.rows), len(result.columns)) >= 1
    elif kind == "playground":
        fine = isinstance(result, Playground)
    elif kind == "traces":
        fine = isinstance(result, Traces)
    elif kind == "attack":
        distances, attacked = result
        fine = DISTANCES.holds(distances) and ATTACKED.holds(attacked) and len(distances) == len(attacked)
    else:
        fine = not kind.startswith("smart on ") or (each(a(SMART)).holds(result) and len(result) >= 1)
    if not fine:
        raise ValueError(f"a study of the kind {kind} has another result")
    return Study(result, made_with)


def _sets_of_studies(here: Session) -> list[LogitSet]:
    """Return the data sets that studies refer to."""
    found = [getattr(study.result, "data", None) for study in here.studies.values()]
    return [data for data in found if isinstance(data, LogitSet)]
