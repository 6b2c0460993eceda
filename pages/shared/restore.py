"""The session as one file, and back: data sets, fits, rows, settings, studies and the view."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from pages.shared import library, reading
from pages.shared.desk import Desk, Held, Row, Split
from pages.shared.studies import Study
from smart_core import LogitSet
from smart_core.calibrators import get, methods
from smart_core.errors import WorkspaceError
from smart_core.experiments import MethodResult
from smart_core.export.workspace import Workspace, load_workspace, save_workspace
from smart_core.export.workspace_tree import Writer

ROWS = "rows"
"""Where the leaderboard's rows lie among the studies of the file."""
STUDY = "study "
"""What the name of a study begins with there."""


def gather(desk: Desk, view: Mapping[str, str]) -> tuple[Workspace, list[str]]:
    """What is on the desk, to be saved later, and the names of studies that a file cannot keep.

    The bundled samples are everywhere and stay out, unless a study is about one.
    """
    own = {key: desk.sets[key] for key in desk.sets}
    sets = [held.data for held in own.values()]
    sets += [data for data in _sets_of(desk) if not any(data is known for known in sets)]
    studies, left_out = {}, []
    for name, study in desk.studies.items():
        kept = {"result": study.result, "made_with": study.made_with} if isinstance(study, Study) else {"result": study}
        try:
            Writer(sets).tree(kept, name)
            studies[f"{STUDY}{name}"] = kept
        except WorkspaceError:
            left_out.append(name)
    rows = {
        key: {"result": row.result, "settings": row.settings, "seeds": row.seeds, "bins": row.bins}
        for key, row in desk.rows.items()
    }
    about = {
        "view": dict(view),
        "held": {key: {"title": held.title, "call": held.call, "options": held.options} for key, held in own.items()},
        "splits": {key: [split.fraction, split.seed] for key, split in desk.splits.items()},
        "settings": {method: dict(chosen) for method, chosen in desk.settings.items()},
    }
    return Workspace(about, sets, dict(desk.fits), {ROWS: rows, **studies}), left_out


def content(workspace: Workspace) -> bytes:
    """The file."""
    stream = io.BytesIO()
    save_workspace(stream, workspace)
    return stream.getvalue()


def take_in(file: bytes, desk: Desk) -> dict[str, str]:
    """Put everything in a file on the desk, beside what lies there; gives the view to open.

    Nothing is put there before the whole file has been understood.
    """
    workspace = load_workspace(file)
    try:
        about = dict(workspace.view)
        by_key = {library.key_of(data): data for data in workspace.sets}
        held = {key: _held(by_key[key], entry) for key, entry in about["held"].items() if key in by_key}
        splits = {str(key): Split.asked(fraction, seed) for key, (fraction, seed) in about["splits"].items()}
        settings = {id: _settings(id, chosen) for id, chosen in about["settings"].items() if id in methods()}
        rows = {key: _row(**entry) for key, entry in workspace.studies[ROWS].items()}
        studies = {
            name.removeprefix(STUDY): Study(**kept) if "made_with" in kept else kept["result"]
            for name, kept in workspace.studies.items()
            if name.startswith(STUDY)
        }
        view = {str(name): str(value) for name, value in about["view"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WorkspaceError("The workspace is of another kind or damaged; use a file saved on this page.") from error
    desk.sets.update(held)
    desk.splits.update(splits)
    desk.settings.update(settings)
    desk.fits.update(workspace.fits)
    desk.rows.update(rows)
    desk.studies.update(studies)
    return view


def _held(data: LogitSet, entry: Mapping[str, Any]) -> Held:
    options = reading.unpacked(reading.packed(entry["options"]))
    return Held(data, str(entry["title"]), str(entry["call"]), options)


def _settings(method: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """As they stand in the file; what the method would refuse is refused here, not by every later fit and form."""
    get(method, **chosen).check_settings()
    return dict(chosen)


def _row(result: MethodResult, settings: dict[str, Any], seeds: int, bins: int) -> Row:
    if not isinstance(result, MethodResult) or result.id not in methods():
        raise TypeError("no row of a leaderboard")
    return Row(result, dict(settings), int(seeds), int(bins))


def _sets_of(desk: Desk) -> list[LogitSet]:
    """The data sets that studies refer to."""
    results = [study.result if isinstance(study, Study) else study for study in desk.studies.values()]
    found = [getattr(result, "data", None) for result in results]
    return [data for data in found if isinstance(data, LogitSet)]
