"""What a rerun of the page must not lose: the server's answers to the browser, and the files of download buttons."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamlit import runtime
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.media_file_storage import MediaFileStorageError
from streamlit.runtime.scriptrunner import get_script_run_ctx

GRACE_SECONDS = 20.0
"""How long a download that the page no longer offers can still be clicked, and a file that was written be fetched."""

ANSWERS = ("file_urls_response", "backend_operation_response")
"""Messages that the browser waits for: where to upload a file, and where the file behind a clicked button lies."""

_clear = ForwardMsgQueue.clear


def _clear_but_answers(
    queue: ForwardMsgQueue, retain_lifecycle_msgs: bool = False, fragment_ids_this_run: list[str] | None = None
) -> None:
    before = [message for message in queue._queue if message.WhichOneof("type") in ANSWERS]
    _clear(queue, retain_lifecycle_msgs, fragment_ids_this_run)
    if retain_lifecycle_msgs:
        queue._queue += [message for message in before if not any(message is kept for kept in queue._queue)]


def keep_answers() -> None:
    """Let the server's answers outlive the start of a run.

    Streamlit empties its queue of messages when a run starts, and drops them too. The browser then waits for ever: a
    file chosen at the moment of a rerun does not arrive, and a download button clicked then stays disabled.
    """
    ForwardMsgQueue.clear = _clear_but_answers  # type: ignore[method-assign, assignment]


@dataclass
class Offer:
    """The file behind a download button, which is written when the button is clicked."""

    content: Callable[[], bytes]
    media_type: str
    file_name: str | None
    session: str
    left: float | None = None
    """When a later run of the page began, if none has drawn the button since."""


class LastingDownloads(MediaFileManager):
    """Streamlit's store of downloads, with the same id for a button at every run of the page.

    Streamlit gives each button a new id at every run, and forgets the old ones as soon as the run ends, or is
    interrupted before it has drawn the button, or the run of another session ends: a click made with what the browser
    still shows then fails. A written file, too, may be gone before the browser has fetched it.
    """

    offers: dict[str, Offer]
    last_removal = 0.0

    def add_deferred(
        self,
        data_callable: Callable[[], Any],
        mimetype: str | None,
        coordinates: str,
        file_name: str | None = None,
        *,
        element_id: str = "",
    ) -> str:
        """Return the id of a button: the same for the same session, key and file name."""
        session = _session()
        name = "\n".join((session, element_id or coordinates, file_name or ""))
        id = hashlib.sha256(name.encode()).hexdigest()
        self.offers[id] = Offer(data_callable, mimetype or "application/octet-stream", file_name, session)
        return id

    def execute_deferred(self, file_id: str) -> str:
        """Write the file and return its URL."""
        offer = self.offers.get(file_id)
        if offer is None:
            raise MediaFileStorageError(f"no download has the id {file_id}")
        url = self.add(offer.content(), offer.media_type, file_id, offer.file_name, is_for_static_download=True)
        super().clear_session_refs()  # this thread belongs to no session: nothing else would remove the file
        return url

    def clear_session_refs(self, session_id: str | None = None) -> None:
        """Begin a run, or end the session that is named."""
        super().clear_session_refs(session_id)
        for id, offer in list(self.offers.items()):
            if offer.session == session_id:
                self.offers.pop(id, None)
            elif session_id is None and offer.session == _session() and offer.left is None:
                offer.left = time.monotonic()

    def remove_orphaned_files(self) -> None:
        """Remove what no page has offered for a while. Streamlit removes a written file at the second call."""
        now = time.monotonic()
        if now - self.last_removal < GRACE_SECONDS:
            return
        self.last_removal = now
        for id, offer in list(self.offers.items()):
            if offer.left is not None and now - offer.left > GRACE_SECONDS:
                self.offers.pop(id, None)
        super().remove_orphaned_files()


def _session() -> str:
    context = get_script_run_ctx()
    return "" if context is None else context.session_id


def keep_downloads() -> None:
    """Let a click on a download button that meets a rerun of the page still find its file."""
    manager = runtime.get_instance().media_file_mgr if runtime.exists() else None
    if type(manager) is MediaFileManager:
        vars(manager).setdefault("offers", {})
        manager.__class__ = LastingDownloads
