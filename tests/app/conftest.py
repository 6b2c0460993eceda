"""AppTest as it is on a server that has drawn its menu before."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.runtime.pages_manager import PagesManager


@pytest.fixture(autouse=True)
def menu_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest forgets at every run that the menu is drawn by dashboard.py and not from the folder `pages`.

    Then a page's file runs first and starts over through dashboard.py (`navigation.enter`), and on that way a
    click is lost. On a server this can only happen at the first request, where nothing has been clicked; the browser
    tests cover it.
    """
    init = PagesManager.__init__

    def with_menu(self: PagesManager, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        PagesManager.uses_pages_directory = False

    monkeypatch.setattr(PagesManager, "__init__", with_menu)
