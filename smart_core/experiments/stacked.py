"""SMART fitted many times to the same data: what the fits share is read once, and they run side by side.

Each fit is the one that `fit_method` would make, bit for bit; which thread it runs in makes no difference.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from smart_core import kernels
from smart_core.calibrators import get
from smart_core.calibrators.smart import SMART, Reading
from smart_core.data.logitset import LogitSet
from smart_core.device import resolve_device
from smart_core.errors import Cancelled
from smart_core.experiments.fitting import Settings
from smart_core.experiments.judging import SmartJudge
from smart_core.kernels.threads import share_each
from smart_core.progress import Run

Metrics = dict[str, float]


class Stack:
    """Fits on a set's validation part, each judged on its test part by every metric."""

    def __init__(self, data: LogitSet, bins: int, device: str) -> None:
        self.data, self.bins, self.device = data, bins, device
        self._readings: dict[tuple[object, ...], Reading] = {}
        self._judges: dict[str, SmartJudge] = {}

    def takes(self, method: str, settings: Settings) -> bool:
        """Whether the compiled loops know these fits; all others are made one by one."""
        if method != "smart" or not kernels.enabled or not kernels.installed():
            return False
        smart = self._smart(settings)
        whole = smart.batch_size is None or smart.batch_size >= len(self.data.validation)
        known = smart.objective == "charbonnier" and smart.layers == 1 and smart.indicator != "all_logits"
        return whole and known and resolve_device(smart.device).type == "cpu"

    def results(self, settings: Sequence[Settings], run: Run) -> Generator[Metrics | Exception]:
        """The metrics of a fit for each of the settings, in order and as they come, or what went wrong with it."""

        def one(chosen: Settings) -> Metrics | Exception:
            smart, line = self._smart(chosen), Run(cancel=run.cancel)
            try:
                smart.fit_reading(self._reading(smart), line)
                return self._judges[smart.indicator].metrics(smart, line)
            except Cancelled:
                raise
            except Exception as error:
                return error

        try:
            for chosen in settings:
                self._read(self._smart(chosen), run.part(0.0, 0.02))
        except Cancelled:
            raise
        except Exception as error:
            yield from [error] * len(settings)
            return
        yield from share_each(one, settings, run.part(0.02, 1.0), "fitting SMART")

    def _smart(self, settings: Settings) -> SMART:
        smart = get("smart", **{"device": self.device, **settings})
        assert isinstance(smart, SMART)
        return smart

    def _read(self, smart: SMART, run: Run) -> None:
        """What fits and judgement share, once for each kind of reading."""
        if self._key(smart) not in self._readings:
            part = self.data.validation
            reading = smart.read(smart._fit_data(part.logits, part.labels, None, None), run)
            self._readings[self._key(smart)] = reading
        if smart.indicator not in self._judges:
            self._judges[smart.indicator] = SmartJudge(self.data.test, smart.indicator, self.bins, run)

    def _reading(self, smart: SMART) -> Reading:
        return self._readings[self._key(smart)]

    @staticmethod
    def _key(smart: SMART) -> tuple[object, ...]:
        return smart.indicator, smart.standardize, smart.init
