"""Odd files loaded in separate processes with limits, and a table of the outcomes."""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.robustness.case import Case
from tests.timing import slowdown

SECONDS, PEAK = 5.0, 1_000_000_000
"""CPU time and memory that the process which reads a file may take."""
OWN = 1.0
"""CPU time that the calling process itself may take: pages of other sessions wait for no more."""
GROWTH = 64 << 20
"""Bytes by which the calling process may grow beyond the arrays that it accepts."""
AUDITED = 8
"""One file in so many is also read in the calling process, which records what it does besides reading."""
PATIENCE = 60.0
"""Seconds without an answer after which a worker counts as hung: much more than a file may take on a busy machine."""
BATCH = 500
"""Files on disk, and tried by one process."""

UNTOLD = re.compile(r"Traceback|File \"|0x[0-9a-fA-F]{5,}|object at |<class |\bline \d+, in ")
"""Signs of a traceback or of an object's repr in a message."""


@dataclass(frozen=True)
class Outcome:
    """What came of one file."""

    case: Case
    result: str
    """`loaded`, `refused`, or what must not be: `error`, `hang`, `crash`."""
    said: str = ""
    seconds: float = 0.0
    wall: float = 0.0
    own: float = 0.0
    peak: int = 0
    audited: bool = False
    faults: tuple[str, ...] = ()
    """What breaks a promise."""


def judge(case: Case, name: str, answer: dict[str, Any]) -> Outcome:
    """Check an answer against every promise."""
    result, said = answer["outcome"], answer["said"]
    faults = [f"did {what}" for what in answer["did"]]
    if answer["described"]:
        faults.append(answer["described"])
    if result == "loaded" and said:
        faults.append(said)
    if result == "error":
        faults.append(said)
    if result == "refused":
        faults += [f"{words}: {said!r}" for words in sentence_faults(said, name)]
    if answer["seconds"] > SECONDS and answer["seconds"] > SECONDS * slowdown():
        faults.append(f"took {answer['seconds']:.1f} s")
    if answer["own"] > OWN and answer["own"] > OWN * slowdown():
        faults.append(f"took {answer['own']:.1f} s of the calling process")
    if answer["peak"] > PEAK:
        faults.append(f"took {answer['peak'] / 1e6:.0f} MB")
    if answer["growth"] > GROWTH:
        faults.append(f"left {answer['growth'] / 1e6:.0f} MB in the calling process")
    figures = [answer[name] for name in ("seconds", "wall", "own", "peak", "audited")]
    return Outcome(case, result, said, *figures, tuple(faults))


def sentence_faults(said: str, name: str) -> Iterator[str]:
    """Why this is not one plain sentence about the file."""
    if not said.isprintable():
        yield "not one printable line"
    if not said.startswith(f"{name}: "):
        yield "does not begin with the file's name"
    if not said.endswith("."):
        yield "does not end like a sentence"
    if UNTOLD.search(said):
        yield "speaks of the program"
    if len(said) > 700:
        yield "is too long"


def tried(cases: Sequence[Case], folder: Path) -> Iterator[Outcome]:
    """Each case's outcome, in order; the folder is filled and emptied batch by batch."""
    from tests.robustness.mutations import SOUND

    warm = folder / "sound"
    warm.mkdir()
    for name, content in SOUND.items():
        if name != "logits.npy":
            (warm / name).write_bytes(content)
    for start in range(0, len(cases), BATCH):
        yield from _batch(cases[start : start + BATCH], folder / f"batch{start}", sorted(map(str, warm.iterdir())))


def _batch(cases: Sequence[Case], folder: Path, warm: list[str]) -> Iterator[Outcome]:
    canary = folder / "canary"
    places = {folder / part: None for part in ("work", "temporary", "home")}
    for place in [folder, *places]:
        place.mkdir()
    paths = []
    for number, case in enumerate(cases):
        path = folder / str(number) / case.name
        path.parent.mkdir()
        path.write_bytes(case.make(canary))
        paths.append(path)
    before = _listing(folder)
    waiting = [
        (str(path), number % 2 == 1, number % AUDITED == 0 or case.kind == "hostile pickle")
        for number, (path, case) in enumerate(zip(paths, cases, strict=True))
    ]
    done = 0
    while done < len(cases):
        for answer in _answers(waiting[done:], warm, folder):
            yield judge(cases[done], cases[done].name, answer)
            done += 1
    assert not canary.exists(), "a hostile file has run"
    assert _listing(folder) == before, "a file was written, moved or removed while reading"
    for path in paths:
        path.unlink()
        path.parent.rmdir()


def _listing(folder: Path) -> dict[str, int]:
    """Every file below the folder and its size."""
    return {str(path): path.stat().st_size for path in folder.rglob("*")}


def _answers(waiting: list[tuple[str, bool, bool]], warm: list[str], folder: Path) -> Iterator[dict[str, Any]]:
    """One worker's answers; where it hangs or dies, that is the answer for its file and the last one."""
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1", "TMPDIR": str(folder / "temporary"),
        "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "tests.robustness.worker"],
        cwd=folder / "work", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as worker:  # fmt: skip
        assert worker.stdin is not None
        worker.stdin.write(json.dumps([warm, waiting]).encode() + b"\n")
        worker.stdin.flush()
        started = False
        for line in _lines(worker):
            if line is None:
                worker.kill()
                assert started, "the worker did not start"
                yield _lost("hang", f"no answer within {PATIENCE:.0f} s")
                return
            answer = json.loads(line)
            started = "start" in answer
            if not started:
                yield answer
        if started or worker.wait() != 0:
            assert worker.stderr is not None
            words = worker.stderr.read().decode(errors="replace")[-300:]
            assert started, f"the worker failed: {words}"
            yield _lost("crash", f"the process died with {worker.wait()}: {words}")


def _lost(result: str, words: str) -> dict[str, Any]:
    figures = {"seconds": 0.0, "wall": 0.0, "own": 0.0, "peak": 0, "growth": 0, "audited": False}
    return {"outcome": result, "said": words, "described": words, "did": [], **figures}


def _lines(worker: subprocess.Popen[bytes]) -> Iterator[bytes | None]:
    """The worker's lines; None where it has been silent for too long."""
    assert worker.stdout is not None
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(worker.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(PATIENCE):
                yield None
                return
            chunk = os.read(worker.stdout.fileno(), 1 << 16)
            if not chunk:
                return
            *lines, held = (held + chunk).split(b"\n")
            yield from lines


def table(outcomes: Sequence[Outcome]) -> str:
    """Counts by format and by outcome, with the longest times and the most memory."""
    formats = sorted({outcome.case.format for outcome in outcomes})
    results = ["loaded", "refused", "error", "hang", "crash"]
    lines = [
        f"{'format':<12}{'files':>7}"
        + "".join(f"{name:>9}" for name in results)
        + f"{'audited':>9}{'broken':>9}{'CPU s':>8}{'wall s':>8}{'own s':>8}{'MB':>8}"
    ]
    for format in [*formats, "all"]:
        own = [o for o in outcomes if format in ("all", o.case.format)]
        counts = Counter(o.result for o in own)
        lines.append(
            f"{format or '(none)':<12}{len(own):>7}"
            + "".join(f"{counts[name]:>9}" for name in results)
            + f"{sum(o.audited for o in own):>9}{sum(bool(o.faults) for o in own):>9}"
            + f"{max(o.seconds for o in own):>8.2f}{max(o.wall for o in own):>8.2f}"
            + f"{max(o.own for o in own):>8.2f}{max(o.peak for o in own) / 1e6:>8.0f}"
        )
    return "\n".join(lines)


def faults(outcomes: Sequence[Outcome]) -> list[str]:
    """Every broken promise in a line."""
    return [f"{o.case.name} ({o.case.kind}): {'; '.join(o.faults)}" for o in outcomes if o.faults]
