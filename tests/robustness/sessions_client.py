"""A client without a browser: speaks the dashboard's protocol over a websocket and reads everything it is sent.

What a browser would show arrives as protocol buffers whose texts are plain UTF-8, so a word that a session may not see
can be looked for in the bytes themselves: in words, tables, figures and file names alike.
"""

from __future__ import annotations

import http.client
import re
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.sync.client import ClientConnection, connect

PATIENCE = 300.0
"""Seconds until an answer that does not come counts as lost."""

IDLE = 1.0
"""Seconds between two looks of a page from which on it waits for no job."""

BLOCK = 1 << 20
"""Bytes of an upload sent at a time."""

MARKER = re.compile(rb"zq(\d{3})marker")
"""Words of this form say which session's file they come from."""

UNFORESEEN = (b"Unexpected error", b"Traceback (most recent call last)")
"""The message that the dashboard shows for an unexpected error."""

WIDGET = re.compile(r"^\$\$ID-[0-9a-f]+-(.+)$")


class Lost(Exception):
    """The server closed the connection or did not answer."""


class Visitor:
    """One session: opens pages, sets widgets, uploads, and remembers which markers it was sent."""

    def __init__(self, address: str, access: str = "") -> None:
        """Come to a server; `access` is the cookie of its token, if it has one."""
        self.address = address
        self.host = urlsplit(address).netloc
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=PATIENCE) as answer:
            cookie = answer.headers.get("Set-Cookie", "")
        self.token = cookie.partition("=")[2].partition(";")[0].strip('"')
        self.cookie = "; ".join(filter(None, (cookie.partition(";")[0], access)))
        self.session = ""
        self.pages: dict[str, str] = {}
        """Address of a page -> the server's name of it."""
        self.page = ""
        self.query = ""
        self.widgets: dict[str, str] = {}
        """Key of a widget -> the server's name of it."""
        self.poll: tuple[float, str] | None = None
        """Seconds, and the fragment that wants to be run so often."""
        self.markers: set[int] = set()
        self.problems: list[str] = []
        self.latest = b""
        """All that the last run of the page has sent."""
        self.listener = lambda raw: None
        """Called with each message, as bytes."""
        self.line = self._dial()

    def _dial(self) -> ClientConnection:
        # the third name is the session to take up again, as a browser does after a cut
        names = ["streamlit", self.token, *([self.session] if self.session else [])]
        url = f"ws://{self.host}/_stcore/stream"
        headers = {"Cookie": self.cookie}
        dialled = connect(
            url,
            subprotocols=names,  # type: ignore[arg-type]
            additional_headers=headers,
            max_size=None,
            open_timeout=PATIENCE,
            compression=None,
            ping_interval=None,
            proxy=None,
        )
        return dialled.__enter__()  # closed by `leave` or `cut`, not at the end of a block

    def cut(self) -> None:
        """The connection breaks without a goodbye."""
        self.line.socket.close()

    def dial_again(self) -> None:
        """Connect as a browser does after a cut: with the session's name."""
        self.line = self._dial()

    def leave(self) -> None:
        """Close the window."""
        self.line.close()

    def open(self, page: str, query: str = "") -> None:
        """A page by its address, as a first visit or by a click on the menu."""
        back = BackMsg()
        state = back.rerun_script
        if page in self.pages:
            state.page_script_hash = self.pages[page]
        else:
            state.page_name = page
        self.query = state.query_string = query
        self._send(back)
        self._until_idle()

    def touch(self, page_widgets: dict[str, Any]) -> None:
        """Set widgets by their keys and run the page; True for a button presses it."""
        back = BackMsg()
        for key, value in page_widgets.items():
            back.rerun_script.widget_states.widgets.append(self._state(key, value))
        back.rerun_script.page_script_hash = self.page
        back.rerun_script.query_string = self.query
        self._send(back)
        self._until_idle()

    def look(self) -> None:
        """Run the fragment that asks for it, after its pause."""
        if self.poll is None:
            return
        pause, fragment = self.poll
        time.sleep(pause)
        back = BackMsg()
        back.rerun_script.fragment_id = fragment
        back.rerun_script.is_auto_rerun = True
        back.rerun_script.page_script_hash = self.page
        back.rerun_script.query_string = self.query
        self._send(back)
        self._until_idle()

    def settle(self, patience: float = PATIENCE) -> None:
        """Look until no job is under way."""
        deadline = time.monotonic() + patience
        while self.poll is not None and self.poll[0] < IDLE:
            if time.monotonic() > deadline:
                raise Lost("the jobs did not end in time")
            self.look()

    def upload(self, key: str, path: Path) -> None:
        """Drop a file on an uploader and wait for what the page makes of it."""
        back = BackMsg()
        asked = back.file_urls_request
        asked.request_id, asked.session_id = uuid.uuid4().hex, self.session
        asked.file_names.append(path.name)
        self._send(back)
        answer = next(message for message in self._messages() if message.WhichOneof("type") == "file_urls_response")
        place = answer.file_urls_response.file_urls[0]
        self._put(place.upload_url, path)
        state = WidgetState(id=self.widgets[key])
        info = state.file_uploader_state_value.uploaded_file_info.add()
        info.name, info.size, info.file_id = path.name, path.stat().st_size, place.file_id
        info.file_urls.CopyFrom(place)
        back = BackMsg()
        back.rerun_script.widget_states.widgets.append(state)
        back.rerun_script.page_script_hash = self.page
        back.rerun_script.query_string = self.query
        self._send(back)
        self._until_idle()

    def _put(self, url: str, path: Path) -> None:
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{path.name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        line = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        line.putrequest("PUT", url)
        line.putheader("Content-Type", f"multipart/form-data; boundary={boundary}")
        line.putheader("Content-Length", str(len(head) + path.stat().st_size + len(tail)))
        line.putheader("X-Xsrftoken", self.token)
        line.putheader("Cookie", self.cookie)
        line.endheaders()
        line.send(head)
        with path.open("rb") as content:
            while block := content.read(BLOCK):
                line.send(block)
        line.send(tail)
        answer = line.getresponse()
        if answer.status >= 300:
            raise Lost(f"the upload was answered with {answer.status}: {answer.read()[:200]!r}")
        line.close()

    def _state(self, key: str, value: Any) -> WidgetState:
        if key not in self.widgets:
            raise Lost(f"there is no widget '{key}' on this page")
        state = WidgetState(id=self.widgets[key])
        if key.startswith("fit-") and value is True:
            state.trigger_value = True
        elif isinstance(value, bool):
            state.bool_value = value
        elif isinstance(value, str):
            state.string_value = value
        else:
            state.double_value = float(value)
        return state

    def _send(self, back: BackMsg) -> None:
        try:
            self.line.send(back.SerializeToString())
        except Exception as error:
            raise Lost(f"the connection is gone ({type(error).__name__})") from error

    def _messages(self) -> Iterator[ForwardMsg]:
        while True:
            try:
                raw = self.line.recv(timeout=PATIENCE)
            except Exception as error:
                raise Lost(f"no answer ({type(error).__name__})") from error
            assert isinstance(raw, bytes)
            message = ForwardMsg.FromString(raw)
            self._note(raw, message)
            yield message

    def _until_idle(self) -> None:
        self.latest = b""
        for message in self._messages():
            if message.WhichOneof("type") != "script_finished":
                continue
            # a run that was cut short is followed by the run that it made way for
            if message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                return

    def _note(self, raw: bytes, message: ForwardMsg) -> None:
        self.latest += raw
        self.listener(raw)
        self.markers |= {int(found) for found in MARKER.findall(raw)}
        self.problems += [words.decode() for words in UNFORESEEN if words in raw]
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.session = message.new_session.initialize.session_id
            self.page = message.new_session.page_script_hash
            if not message.metadata.run.fragment_ids:
                self.poll = None
        elif kind == "navigation":
            self.pages = {page.url_pathname: page.page_script_hash for page in message.navigation.app_pages}
            self.page = message.navigation.page_script_hash
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "auto_rerun":
            self.poll = (message.auto_rerun.interval, message.auto_rerun.fragment_id)
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._note_element(message.delta.new_element)

    def _note_element(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.problems.append(f"{element.exception.type}: {element.exception.message}"[:200])
        name = getattr(getattr(element, kind or "", None), "id", "")
        found = WIDGET.match(name) if isinstance(name, str) else None
        if found:
            self.widgets[found[1]] = name
