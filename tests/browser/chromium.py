"""Find a Chromium, or get one: `python -m tests.browser.chromium`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = (
    "chromium-headless-shell",  # draws a page with three quarters of the work of the others
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
APT_PACKAGES = NAMES[:2]
ADVICE = (
    "The browser tests need Chromium, and none was found or could be installed: install Chromium or Chrome, "
    "or run '.venv/bin/playwright install --with-deps chromium', then try again."
)


def executable() -> str | None:
    """The path of a Chromium that can be started: the system's, else Playwright's own."""
    for name in NAMES:
        found = shutil.which(name)
        if found and _starts(found):
            return found
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() and _starts(own) else None


def _starts(path: str) -> bool:
    # Ubuntu's package is a stub that only says how to get the real one
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install() -> None:
    """Try apt-get as root on Debian and Ubuntu, then Playwright's download."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=quiet, stdout=subprocess.DEVNULL)
        for package in APT_PACKAGES:
            command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package, "fonts-dejavu-core"]
            if executable() is None:  # not every release has the first
                subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if executable() is None:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"])


def main() -> None:
    if executable() is None:
        print("Getting Chromium for the browser tests.")
        install()
    if executable() is None:
        sys.exit(ADVICE)


if __name__ == "__main__":
    main()
