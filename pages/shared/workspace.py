"""Save a session as one file and restore it: data sets, fits, leaderboard rows, settings, studies and the view."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages.shared import datasets, downloads, loading, session, urls
from pages.shared.components import plain_text
from pages.shared.session import LeaderboardRow, LoadedDataset, Session, Split
from pages.shared.studies import Study
from smart_core import LogitSet
from smart_core.calibrators import get, methods
from smart_core.errors import SmartError, WorkspaceError
from smart_core.experiments import MethodResult
from smart_core.export.workspace import Workspace, load_workspace, save_workspace
from smart_core.export.workspace_tree import Writer
from smart_core.formatting import plural

# names inside the file
ROWS = "rows"
STUDY = "study "


def draw_save() -> None:
    """Draw the button that downloads the session."""
    here = session.current()
    gathered, left_out = gather(here, urls.current_view())
    studies = len(here.studies) - len(left_out)
    own = f"{plural(len(here.datasets), 'data set')} of your own"
    st.markdown(
        f"**Save** {own}, {plural(len(here.fits), 'fit')}, {plural(studies, 'study')}, the leaderboards, the settings "
        "and the view in one file."
    )
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
    try:
        with st.spinner("Restoring"):
            view = restore(file.getvalue(), here)
    except SmartError as error:
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
            key: {"title": own.title, "call": own.call, "options": own.options} for key, own in here.datasets.items()
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
        about = dict(workspace.view)
        by_key = {datasets.key_of(data): data for data in workspace.sets}
        own = {key: _dataset(by_key[key], entry) for key, entry in about["held"].items() if key in by_key}
        splits = {str(key): Split.parse(fraction, seed) for key, (fraction, seed) in about["splits"].items()}
        settings = {id: _settings(id, chosen) for id, chosen in about["settings"].items() if id in methods()}
        rows = {key: _row(**entry) for key, entry in workspace.studies[ROWS].items()}
        studies = {
            name.removeprefix(STUDY): Study(entry["result"], entry["made_with"])
            for name, entry in workspace.studies.items()
            if name.startswith(STUDY)
        }
        view = {str(name): str(value) for name, value in about["view"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WorkspaceError("The file is not a workspace or is damaged; use a file saved on Export.") from error
    here.datasets.update(own)
    here.splits.update(splits)
    here.settings.update(settings)
    here.fits.update(workspace.fits)
    here.rows.update(rows)
    here.studies.update(studies)
    return view


def _dataset(data: LogitSet, entry: Mapping[str, Any]) -> LoadedDataset:
    options = loading.from_url(loading.to_url(entry["options"]))
    return LoadedDataset(data, str(entry["title"]), str(entry["call"]), options)


def _settings(method: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method; raise an error here for invalid ones, and not in every later fit."""
    get(method, **chosen).check_settings()
    return dict(chosen)


def _row(result: MethodResult, settings: dict[str, Any], seeds: int, bins: int) -> LeaderboardRow:
    if not isinstance(result, MethodResult) or result.id not in methods():
        raise TypeError("not a leaderboard row")
    return LeaderboardRow(result, dict(settings), int(seeds), int(bins))


def _sets_of_studies(here: Session) -> list[LogitSet]:
    """Return the data sets that studies refer to."""
    found = [getattr(study.result, "data", None) for study in here.studies.values()]
    return [data for data in found if isinstance(data, LogitSet)]
