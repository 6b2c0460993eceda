"""What a rerun of the page must not lose: answers that the browser waits for, and the files behind download buttons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
from streamlit import runtime
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.media_file_storage import MediaFileStorageError
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from pages.shared import reruns


@pytest.mark.parametrize("answer", reruns.ANSWERS)
@pytest.mark.parametrize("fragments", [None, ["one"]])
def test_a_new_run_does_not_drop_an_answer_that_a_browser_waits_for(answer: str, fragments: list[str] | None) -> None:
    reruns.keep_answers()
    queue = ForwardMsgQueue()
    for kind in (answer, "script_finished", "delta"):
        message = ForwardMsg()
        getattr(message, kind).SetInParent() if kind != "script_finished" else setattr(message, kind, 0)
        queue.enqueue(message)
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=fragments)
    kinds = [message.WhichOneof("type") for message in queue.flush()]
    assert kinds.count(answer) == 1
    assert "script_finished" in kinds
    assert queue.is_empty()


class Server:
    """Streamlit's store of downloads as two sessions use it, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.storage = MemoryMediaFileStorage("/media")
        self.manager = MediaFileManager(self.storage)
        self.now, self.session = 1000.0, "one"
        place = SimpleNamespace(media_file_mgr=self.manager)
        monkeypatch.setattr(runtime, "exists", lambda: True)
        monkeypatch.setattr(runtime, "get_instance", lambda: place)
        monkeypatch.setattr(reruns.time, "monotonic", lambda: self.now)
        for module in (reruns, MediaFileManager.add.__globals__):
            name, double = "get_script_run_ctx", lambda: SimpleNamespace(session_id=self.session)
            monkeypatch.setitem(module if isinstance(module, dict) else vars(module), name, double)
        reruns.keep_downloads()

    def run(self, *buttons: str, session: str = "one", content: Callable[[], bytes] = lambda: b"x") -> list[str]:
        """A run of a page that draws these buttons; returns their ids."""
        self.session = session
        self.manager.clear_session_refs()
        drawn = [
            self.manager.add_deferred(content, "text/csv", f"place {number}", f"{key}.csv", element_id=key)
            for number, key in enumerate(buttons)
        ]
        self.manager.remove_orphaned_files()
        return drawn

    def read(self, url: str) -> bytes:
        return self.storage.get_file(url.removeprefix("/media/")).content


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def test_a_click_finds_its_file_whatever_ran_since_the_button_was_drawn(server: Server) -> None:
    (shown,) = server.run("table")
    assert server.run("warning", "table")[1] == shown  # at another place of the page
    server.run("warning")  # interrupted before the button
    server.run(session="two")
    server.manager.clear_session_refs("two")
    server.now += reruns.GRACE_SECONDS / 2
    server.run(session="two")
    assert server.read(server.manager.execute_deferred(shown)) == b"x"


def test_a_written_file_can_be_fetched_while_others_rerun(server: Server) -> None:
    for wait in (0.0, 0.9):  # since the last removal
        (shown,) = server.run("table")
        server.now += wait * reruns.GRACE_SECONDS
        url = server.manager.execute_deferred(shown)
        for _ in range(5):
            server.now += 0.15 * reruns.GRACE_SECONDS
            server.run("table", session="two")
            assert server.read(url) == b"x"
    for _ in range(2):
        server.now += 1.1 * reruns.GRACE_SECONDS
        server.run()
    with pytest.raises(Exception, match="No media file"):
        server.read(url)


def test_another_file_another_button_and_another_session_have_other_ids(server: Server) -> None:
    ids = server.run("table", "figure") + server.run("table", session="two")
    server.session = "one"
    ids.append(server.manager.add_deferred(lambda: b"y", "text/csv", "place 0", "other.csv", element_id="table"))
    assert len(set(ids)) == 4
    assert server.read(server.manager.execute_deferred(ids[3])) == b"y"


def test_the_content_is_that_of_the_latest_run(server: Server) -> None:
    for content in (b"0", b"1", b"2"):
        (shown,) = server.run("table", content=partial(bytes, content))
    assert server.read(server.manager.execute_deferred(shown)) == b"2"


def test_nothing_is_kept_of_a_page_that_was_left_or_a_session_that_ended(server: Server) -> None:
    (left,), (ended,) = server.run("table"), server.run("table", session="two")
    server.manager.clear_session_refs("two")
    with pytest.raises(MediaFileStorageError):
        server.manager.execute_deferred(ended)
    server.run("figure")
    server.now += 1.1 * reruns.GRACE_SECONDS
    server.run("figure")
    with pytest.raises(MediaFileStorageError):
        server.manager.execute_deferred(left)
    assert len(server.manager.offers) == 1
