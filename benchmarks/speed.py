"""Every speed of the engine as a ratio measured in one run, written to `benchmarks/RESULTS.md`: `make bench`.

Both sides of a ratio run in this process, one after the other, on simulated logits of 10,000 x 1000 (validation) and
40,000 x 1000 (test). Peak memory is what a step held above what was there before it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

import smart_core as sc
from benchmarks import growth, peers
from benchmarks.direct import direct_fit, double_loop_classwise_ece
from benchmarks.measure import Measured, machine, measured, measured_start
from smart_core.data.simulate import simulate
from smart_core.kernels.compiling import make_all_ready
from smart_core.metrics import charbonnier_soft_ece, classwise_ece, ece, top_label

EPOCHS = 600
VALIDATION, TEST, CLASSES = 10_000, 40_000, 1000
HERE = Path(__file__).parent


@dataclass
class Table:
    """Rows of the results, printed as they come."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, what: str, ours: Measured, other: str, theirs: float, ratio: float, wanted: float, note: str) -> None:
        """`ratio` is the other way's time over ours; a row holds when it is at least `wanted`."""
        row = (
            what,
            f"{ours.seconds:.3f}",
            f"{ours.megabytes:,.0f}",
            f"{other} {theirs:.3f}",
            f"{ratio:.3g} x",
            f"{wanted:.3g} x",
            "yes" if ratio >= wanted else "**no**",
            note,
        )
        self.rows.append(row)
        print(" | ".join(row), flush=True)

    def markdown(self) -> str:
        head = ("what", "seconds", "peak MB", "other way, seconds", "ratio", "at least", "holds", "agreement")
        lines = [head, ("---",) * len(head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def reached(calibrator: sc.SMART, logits: np.ndarray, labels: np.ndarray) -> float:
    """The objective of a fit by the exact softmax, in float64."""
    return charbonnier_soft_ece(*top_label(calibrator.predict_proba(logits), labels))


def mean_squared_error(calibrator: sc.PTS, logits: np.ndarray, labels: np.ndarray) -> float:
    """PTS's own objective by the exact softmax: the Brier score over the number of classes."""
    q = calibrator.predict_proba(logits).astype(np.float64)
    label = q[np.arange(len(labels)), labels]
    return float(((q**2).sum(axis=1) - 2 * label + 1).mean() / q.shape[1])


def best_threads(z: torch.Tensor, y: torch.Tensor, temperature: float) -> int:
    """The number of threads in which the direct fit is faster here: on a busy machine one may beat two."""
    seconds, every = {}, torch.get_num_threads()
    for threads in (1, every):
        torch.set_num_threads(threads)
        seconds[threads] = measured(lambda: direct_fit(z, y, temperature, 5), repeats=2).seconds
    torch.set_num_threads(every)
    return min(seconds, key=seconds.__getitem__)


def fits(table: Table, data: sc.LogitSet) -> float:
    """SMART and the study against the direct fit, whose seconds are returned."""
    z, y = np.asarray(data.validation.logits), np.asarray(data.validation.labels)
    settings = {"epochs": EPOCHS, "patience": None, "device": "cpu"}
    temperature = float(sc.TS().fit(z, y).temperature_)
    threads = torch.get_num_threads()
    torch.set_num_threads(best := best_threads(torch.from_numpy(z), torch.from_numpy(y), temperature))
    direct = measured(lambda: direct_fit(torch.from_numpy(z), torch.from_numpy(y), temperature, EPOCHS))
    torch.set_num_threads(threads)
    smart = measured(lambda: sc.SMART(**settings).fit(z, y), repeats=3)
    objective = reached(smart.value, z, y)
    note = f"objective {objective:.6f}, direct {direct.value:.6f} in {best} threads, the faster of 1 and {threads}"
    held = objective <= direct.value + 1e-4
    wanted = 50.0 if held else float("inf")
    table.add("SMART fit", smart, "direct fit", direct.seconds, direct.seconds / smart.seconds, wanted, note)
    study = measured(lambda: sc.sensitivity(data, settings=settings))
    note = f"100 fits of {EPOCHS} epochs, all metrics; direct holds {direct.megabytes:,.0f} MB"
    table.add("sensitivity 5 x 4 x 5", study, "1 direct fit", direct.seconds, direct.seconds / study.seconds, 1.0, note)
    return direct.seconds


def others(table: Table, z: np.ndarray, y: np.ndarray, direct_seconds: float) -> None:
    """PTS and CTS against three direct fits."""
    allowed = 3.0 * direct_seconds
    cts = measured(lambda: sc.CTS(device="cpu").fit(z, y))
    table.add("CTS", cts, "3 direct fits", allowed, allowed / cts.seconds, 1.0, "the same search, one column at a time")
    fast = measured(lambda: sc.PTS(device="cpu").fit(z, y))
    original = measured(lambda: sc.PTS(mode="original", device="cpu").fit(z, y))
    values = mean_squared_error(fast.value, z, y), mean_squared_error(original.value, z, y)
    wanted = 1.0 if values[0] <= values[1] else float("inf")
    note = f"objective {values[0]:.8f}, original {values[1]:.8f} in {original.seconds:.0f} s"
    table.add("PTS, fast", fast, "3 direct fits", allowed, allowed / fast.seconds, wanted, note)


def temperature(table: Table, z: np.ndarray, y: np.ndarray) -> None:
    """TS against the packages that find the same T."""
    ours = measured(lambda: sc.TS(device="cpu").fit(z, y), repeats=5)
    ours_t = float(ours.value.temperature_)
    others = {name: measured(peer, repeats=2) for name, peer in peers.temperature_peers(z, y).items()}
    said = ", ".join(f"{name} {other.value:.4f} in {other.seconds:.2f} s" for name, other in others.items())
    same = {name: other.seconds for name, other in others.items() if abs(other.value - ours_t) < 1e-3}
    fastest = min(same, key=same.__getitem__)
    note = f"T {ours_t:.4f}; {said}"
    table.add("TS", ours, fastest, same[fastest], same[fastest] / ours.seconds, 5.0, note)


def procal(table: Table, validation: sc.Part, test: sc.Part) -> None:
    """ProCal's fit and its probabilities of as many test rows, against its authors' way."""
    z, y, new = (np.asarray(each) for each in (validation.logits, validation.labels, test.logits[: len(validation)]))
    ours = measured(lambda: sc.ProCal(device="cpu").fit(z, y).predict_proba(new), repeats=2)
    theirs = measured(peers.procal_peer(z, y, new))
    off = np.abs(ours.value.max(axis=1) - theirs.value.max(axis=1))
    note = f"fit and {len(new):,} rows; confidences differ by {np.median(off):.1e} in the median"
    table.add("ProCal", ours, "the authors' way", theirs.seconds, theirs.seconds / ours.seconds, 1.0, note)


def metrics(table: Table, z: np.ndarray, y: np.ndarray) -> None:
    """ECE and classwise ECE from probabilities."""
    q = torch.softmax(torch.from_numpy(z), dim=1).numpy()
    ours = measured(lambda: ece(*top_label(q, y)), repeats=5)
    others = {name: measured(peer, repeats=3) for name, peer in peers.ece_peers(q, y).items()}
    said = ", ".join(
        f"{name} {other.value - ours.value:+.0e} in {other.seconds:.3f} s" for name, other in others.items()
    )
    same = {name: other.seconds for name, other in others.items() if abs(other.value - ours.value) < 1e-6}
    fastest = min(same, key=same.__getitem__)
    table.add("ECE", ours, fastest, same[fastest], same[fastest] / ours.seconds, 3.0, f"differences: {said}")
    ours = measured(lambda: classwise_ece(q, y), repeats=3)
    loop = measured(lambda: double_loop_classwise_ece(q, y))
    note = f"equal to {abs(ours.value - loop.value):.1e}"
    table.add("classwise ECE", ours, "double loop", loop.seconds, loop.seconds / ours.seconds, 20.0, note)


def inference(table: Table, data: sc.LogitSet) -> None:
    """Confidence and prediction against one softmax."""
    z = np.asarray(data.test.logits)
    smart = sc.SMART(epochs=20, device="cpu").fit(data.validation.logits, data.validation.labels)
    plain = measured(lambda: torch.softmax(torch.from_numpy(z), dim=1), repeats=5)
    ours = measured(lambda: smart.predict(z), repeats=5)
    rows = smart.predict_proba(z)
    worst = float(np.abs(rows.max(axis=1) - ours.value[0]).max())
    same = bool((rows.argmax(axis=1) == ours.value[1]).all())
    note = f"confidence equal to {worst:.1e}, predictions {'the same' if same else 'differ'}"
    ratio = plain.seconds / ours.seconds
    table.add("SMART inference", ours, "one softmax", plain.seconds, ratio, 1 / 1.5, note)


def starts(table: Table) -> None:
    """How long Python takes to be ready."""
    for what, arguments, limit in (
        ("import smart_core", ("-c", "import smart_core"), 2.0),
        ("python -m smart_core --help", ("-m", "smart_core", "--help"), 0.5),
    ):
        start = measured_start(*arguments)
        table.add(what, start, "limit", limit, limit / start.seconds, 1.0, "")


def main() -> None:
    """Measure everything and write the table."""
    make_all_ready()
    before = machine()
    validation, test = simulate(VALIDATION, CLASSES, seed=0), simulate(TEST, CLASSES, seed=1)
    data = sc.LogitSet("simulated", *(sc.Part(drawn.logits, drawn.labels) for drawn in (validation, test)))
    table = Table()
    starts(table)
    inference(table, data)
    with peers.installed():
        temperature(table, validation.logits, validation.labels)
        metrics(table, test.logits, test.labels)
        procal(table, data.validation, data.test)
    classes, samples = growth.by_classes(), growth.by_samples()
    growth.draw(classes, samples, HERE / "growth.svg")
    direct_seconds = fits(table, data)
    results = HERE / "RESULTS.md"
    results.write_text(report(before, table, classes, samples), encoding="utf-8")  # PTS's original takes long
    others(table, validation.logits, validation.labels, direct_seconds)
    results.write_text(report(before, table, classes, samples), encoding="utf-8")
    print(results.read_text(encoding="utf-8"))


def report(machine: str, table: Table, classes: list[growth.Point], samples: list[growth.Point]) -> str:
    """The page of results."""
    head = ("N", "K", "reading the logits once, s", "epoch, ms", "fit of 600 epochs, s")
    lines = [head, ("---",) * len(head), *growth.rows(classes), *growth.rows(samples)]
    return f"""# Speed

Written by `make bench`. {machine}; {torch.get_num_threads()} threads; load in the end {os.getloadavg()[0]:.1f}.
Validation {VALIDATION:,} x {CLASSES:,}, test {TEST:,} x {CLASSES:,}, simulated. A ratio is the other way's time over
ours, both measured in one run; peak memory is what a step held above what was there before it. GPU: not measured here.

{table.markdown()}

## Growth of a SMART fit

In the processor's own seconds.

{chr(10).join(f"| {' | '.join(line)} |" for line in lines)}

Over tabulated profiles (more than 64 classes) the dearest epoch takes {growth.flatness(classes):.2f} times as long as
the cheapest; at most 1.20 is wanted.

![Seconds of a SMART fit against classes and samples](growth.svg)
"""


if __name__ == "__main__":
    main()
