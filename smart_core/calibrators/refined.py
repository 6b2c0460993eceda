"""Refined SMART: a class-wise or order-preserving refinement, chosen by cross-validation, then SMART on its outputs.

A temperature cannot repair a classifier whose classes are biased; maps of the classes can, and leave a confidence that
SMART repairs. Every choice is made on validation:

1. The refinement: of none, IOP, quadratic scaling, SVS and SMS, in this order, the first whose cross-validated NLL is
   not above the least beyond noise (paired, one-sided, 95%). Those that keep the prediction come first, then those of
   fewer parameters, so that noise neither changes predictions nor adds parameters.
2. SMART: fitted on the refinement's outputs of the rows that it was fitted on, or on cross-fitted outputs, of fits
   without the row's own fold; and its map shrunk towards the flat one of temperature scaling. Of both sources and five
   degrees, the one of least cross-validated Charbonnier-SoftECE is taken, among those whose cross-validated NLL is at
   most `nll_budget` above that of no map at all.

With fewer than 20 rows for each class on average no refinement is tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from smart_core.calibrators import mlp
from smart_core.calibrators.base import Calibrator, FitData, LineStyle
from smart_core.calibrators.chain import FIRST, SECOND, Composite, outputs
from smart_core.calibrators.registry import get, method_named
from smart_core.calibrators.settings import setting
from smart_core.calibrators.smart import EPSILON, SMART, Reading, inverse_softplus
from smart_core.device import widen
from smart_core.errors import CalibrationError
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.kernels.threads import share
from smart_core.progress import CancelToken, Run
from smart_core.types import Logits

NONE, AUTO = "none", "auto"
CANDIDATES = ("iop", "quadratic", "svs", "sms")
"""Refinements by id, in the order of preference between those that noise cannot tell apart."""

FEWEST_FOR_FOLDS = 50
"""The fewest rows for cross-validation; below, SMART is fitted on in-sample outputs and its whole map is kept."""

LEAST_ROWS = 20
"""Rows for each class, on average, from which a refinement is tried: SVS learns two numbers for each class."""

MOST_CLASSES_OF_SMS = 100
"""Classes up to which SMS, a map of K x K numbers, is tried."""

FOLD_SEED = 0
"""Folds are the same for every seed of the fit, so that the choice is, too."""

BEYOND_NOISE = 1.645
"""Standard errors of a one-sided test at 95%."""

DEGREES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of SMART's map is kept: 0 is temperature scaling."""

IN_SAMPLE, CROSS_FITTED = "in-sample", "cross-fitted"


@dataclass(kw_only=True, eq=False)
class Refined(Composite):
    """`q = softmax(x / T(m))`, x the log-probabilities of a refinement, T(m) SMART's map of their margin m.

    The refinement is none, SVS, SMS (up to 100 classes), IOP or, for two classes, quadratic scaling: the one of least
    cross-validated NLL on validation, if its gain is beyond noise. SMART is fitted on in-sample or cross-fitted outputs
    and shrunk towards temperature scaling, whichever has the least cross-validated error within a budget of NLL. With
    fewer than 20 rows per class there is no refinement. `choice_` and a notice say what was chosen.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> fit = sc.Refined(refinement="svs").fit(data.validation.logits, data.validation.labels)
    >>> fit.choice_["refinement"], fit.keeps_top1
    ('svs', False)
    """

    id = "refined"
    label = "Refined SMART"
    summary = "A refinement chosen by cross-validated NLL (SVS, SMS, IOP or none), then SMART on its outputs."
    position = 28
    family = "One temperature per sample or class"
    style = LineStyle("#C2255C", "15px,3px", "hexagram", 3.0)
    infinite = (f"{SECOND}_limit_",)
    stochastic = True

    refinement: str = setting(
        AUTO, "Which refinement comes first; auto chooses by cross-validated NLL.", choices=(AUTO, NONE, *CANDIDATES)
    )
    top1: str = setting(
        "change",
        "keep: only refinements that keep the prediction (none or IOP); change: any.",
        choices=("change", "keep"),
    )
    folds: int = setting(5, "Folds of the cross-validation.", low=2, high=20)
    nll_budget: float = setting(
        0.005, "Largest relative increase of the NLL that is accepted for a lower calibration error.", low=0.0, high=1.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parts_: dict[str, Calibrator] = {}
        self.choice_: dict[str, Any] = {}

    @property
    def keeps_top1(self) -> bool:
        if self.parts_:
            return super().keeps_top1
        return self.top1 == "keep" or self.refinement in (NONE, "iop")

    # -- the fit -----------------------------------------------------------------------------------------

    def _fit(self, data: FitData, run: Run) -> None:
        fold = folds_of(data.labels, self.folds)
        candidates, why = self._candidates(data)
        nll, fits = self._cross_validate(data, fold, candidates, run.part(0.0, 0.5, traced=False))
        chosen, reason = _decide(nll, why) if self.refinement == AUTO else (self.refinement, "It was asked for.")
        refinement = None
        if chosen != NONE:
            refinement = self._part(chosen)._fit_rows(data, run.part(0.5, 0.6, traced=False))
        smart, source, degree = self._smart(data, refinement, fits.get(chosen, []), fold, run.part(0.6, 1.0))
        self.parts_ = ({} if refinement is None else {FIRST: refinement}) | {SECOND: smart}
        self.choice_ = {
            "refinement": chosen,
            "reason": reason,
            "nll": {id: float(values.mean()) for id, values in nll.items()},
            "fitted_on": source,
            "degree": degree,
        }
        self.notices_ += [self._words()]
        self.notices_ += [] if refinement is None else [f"{refinement.label}: {each}" for each in refinement.notices_]

    def _part(self, id: str) -> Calibrator:
        """A refinement with this fit's device; its seed is fixed, so that the choice does not depend on the seed."""
        part = get(id, seed=FOLD_SEED, device=self.device)
        part.check_settings()
        return part

    def _candidates(self, data: FitData) -> tuple[list[str], str | None]:
        """The refinements to try, and why there are none."""
        if self.refinement != AUTO:
            if self.refinement == "quadratic" and data.classes != 2:
                raise self._error("quadratic scaling is for two classes")
            return [id for id in [self.refinement] if id != NONE], None
        rows = len(data) / data.classes
        if rows < LEAST_ROWS:
            return [], f"{rows:.3g} validation rows per class are too few for one ({LEAST_ROWS} are needed)"
        possible = {
            "svs": True,
            "sms": data.classes <= MOST_CLASSES_OF_SMS,
            "iop": True,
            "quadratic": data.classes == 2,
        }
        keep = self.top1 == "keep"
        return [id for id in CANDIDATES if possible[id] and (not keep or method_named(id)().keeps_top1)], None

    def _cross_validate(
        self, data: FitData, fold: Tensor, candidates: list[str], run: Run
    ) -> tuple[dict[str, Tensor], dict[str, list[Calibrator]]]:
        """For each candidate and for none, the NLL of every row under a fit without its fold; and these fits."""
        nll: dict[str, Tensor] = {}
        fits: dict[str, list[Calibrator]] = {}
        if not candidates or len(data) < FEWEST_FOR_FOLDS:
            return nll, fits
        steps = [(id, f) for id in (NONE, *candidates) for f in range(self.folds)]
        for number, (id, f) in enumerate(steps):
            span = run.part(number / len(steps), (number + 1) / len(steps))
            training, held = _rows(data, fold != f), _rows(data, fold == f)
            fit = self._part("ts" if id == NONE else id)._fit_rows(training, span)
            fits.setdefault(id, []).append(fit)
            if id not in nll:
                nll[id] = torch.zeros(len(data), dtype=torch.float64, device="cpu")
            log_q = outputs(fit, held, span.part(1.0, 1.0))
            nll[id][(fold == f).cpu()] = -widen(log_q.gather(1, held.labels.unsqueeze(1))).squeeze(1).cpu()
        return nll, fits

    def _smart(
        self, data: FitData, refinement: Calibrator | None, fits: list[Calibrator], fold: Tensor, run: Run
    ) -> tuple[SMART, str, float]:
        """SMART on the refined rows, the source it was fitted on, and how much of its map is kept."""
        part = SMART(seed=self.seed, device=self.device)
        if len(data) < FEWEST_FOR_FOLDS:
            logits = data.logits if refinement is None else outputs(refinement, data, run.part(0.0, 0.1))
            return part._fit_rows(replace(data, logits=logits), run.part(0.1, 1.0)), IN_SAMPLE, 1.0
        sources = self._sources(part, data, refinement, fits, fold, run.part(0.0, 0.3, traced=False))
        loss = OBJECTIVES[part.objective].bind(sigma=part.sigma, delta=part.delta, bins=part.bins)
        options: list[tuple[float, str, float]] = []
        limit = None
        fitted: SMART | None = None
        for number, (source, (whole, held, readings)) in enumerate(sources.items()):
            width = 0.5 / len(sources)
            span = run.part(0.3 + number * width, 0.3 + (number + 1) * width, traced=False)
            # a source without a rival is the one taken: its fit is made beside the others, or later with its trace
            alone = [whole] if len(sources) == 1 and run.trace is None else []
            fits_to = partial(self._fitted_to, cancel=run.cancel)
            parts = share(fits_to, [*readings, *alone], span, "fitting SMART without each fold")
            fitted = parts[-1] if alone else None
            flat = _flat(held)
            raw = torch.full_like(held.profile.correct, flat)
            for f in range(len(readings)):
                raw[fold == f] = _raw(parts[f], held, fold == f)
            for degree in DEGREES:
                beta = 1.0 / (softplus(degree * raw + (1.0 - degree) * flat) + EPSILON)
                nll = float(widen(held.profile.nll(beta)).mean())
                limit = nll * (1.0 + self.nll_budget) if limit is None else limit  # degree 0 comes first
                if nll <= limit:
                    options.append((float(loss(held.profile, beta)), source, degree))
        _, source, degree = min(options)
        reading = sources[source][0]
        smart = fitted or SMART(seed=self.seed, device=self.device).fit_reading(reading, run.part(0.8, 1.0))
        smart.theta_ = shrunk(smart.theta_, smart.hidden, degree, _flat(reading))
        return smart, source, degree

    def _fitted_to(self, reading: Reading, cancel: CancelToken | None) -> SMART:
        return SMART(seed=self.seed, device=self.device).fit_reading(reading, Run(cancel=cancel))

    def _sources(
        self, part: SMART, data: FitData, refinement: Calibrator | None, fits: list[Calibrator], fold: Tensor, run: Run
    ) -> dict[str, tuple[Reading, Reading, list[Reading]]]:
        """Source -> the readings of the final fit, of held-out rows, and of the fit without each fold."""
        if refinement is None:
            whole = part.read(data, run)
            return {IN_SAMPLE: (whole, whole, [_taken(whole, fold != f) for f in range(self.folds)])}
        crossed = torch.empty_like(data.logits)
        readings = []
        for f, fit in enumerate(fits):
            span = run.part(0.9 * f / len(fits), 0.9 * (f + 1) / len(fits))
            training, held = _rows(data, fold != f), _rows(data, fold == f)
            crossed[fold == f] = outputs(fit, held, span)
            readings.append(part.read(replace(training, logits=outputs(fit, training, span)), span))
        held_out = part.read(replace(data, logits=Logits(crossed)), run.part(0.9, 0.95))
        whole = part.read(replace(data, logits=outputs(refinement, data, run.part(0.95, 0.95))), run.part(0.95, 1.0))
        return {
            IN_SAMPLE: (whole, held_out, readings),
            CROSS_FITTED: (held_out, held_out, [_taken(held_out, fold != f) for f in range(self.folds)]),
        }

    def _words(self) -> str:
        """The choice and its reason, as a notice."""
        chosen, degree = self.choice_["refinement"], self.choice_["degree"]
        first = "no refinement" if chosen == NONE else method_named(chosen).label
        then = f"then SMART on {self.choice_['fitted_on']} outputs" if chosen != NONE else "plain SMART"
        kept = "" if degree == 1.0 else f", {degree:.0%} of its map kept"
        return f"Chosen: {first}, {then}{kept}. {self.choice_['reason']}"

    # -- files -------------------------------------------------------------------------------------------

    def decided(self) -> dict[str, Any]:
        return self.choice_

    def restore(self, classes: int, features_used: bool, notices: list[str], decided: Mapping[str, Any]) -> None:
        chosen = decided.get("refinement")
        if chosen not in (NONE, *CANDIDATES):
            raise CalibrationError(f"{self.label}: the file does not say which refinement was chosen.")
        first = {} if chosen == NONE else {FIRST: self._part(str(chosen))}
        self.parts_ = first | {SECOND: SMART(seed=self.seed, device=self.device)}
        self.choice_ = dict(decided)
        super().restore(classes, features_used, notices, {})


def folds_of(labels: Tensor, folds: int) -> Tensor:
    """(N,) the fold of each row: equal shares of every class, drawn at random once and for all."""
    y = labels.cpu().numpy()
    shuffled = np.random.default_rng(FOLD_SEED).permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = np.arange(len(y)) % folds
    return torch.from_numpy(fold).to(labels.device)


def _decide(nll: dict[str, Tensor], why: str | None) -> tuple[str, str]:
    """The first refinement whose cross-validated NLL is not above the least beyond noise, and the reason."""
    if not nll:
        return NONE, f"There is no refinement: {why}." if why else "There is no refinement to try."
    least = min(nll, key=lambda id: float(nll[id].mean()))
    chosen = next(id for id in nll if not _clearly_less(nll[least], nll[id]))
    told = ", ".join(f"{values.mean():.4f} with {_name(id)}" for id, values in nll.items())
    rule = "the first that noise cannot tell from the least"
    return chosen, f"Cross-validated NLL: {told}; {_name(chosen)} is {rule if chosen != least else 'the least'}."


def _name(id: str) -> str:
    return "temperature scaling alone" if id == NONE else method_named(id).label


def _clearly_less(nll: Tensor, other: Tensor) -> bool:
    """Whether the first is less beyond noise."""
    gain = other - nll
    return float(gain.mean()) > BEYOND_NOISE * float(gain.std(correction=0)) / len(gain) ** 0.5


def _rows(data: FitData, chosen: Tensor) -> FitData:
    return replace(data, logits=Logits(data.logits[chosen]), labels=data.labels[chosen], features=None)


def _flat(reading: Reading) -> float:
    """The output of the map that is temperature scaling, before softplus."""
    assert reading.temperature is not None
    return inverse_softplus(reading.temperature - EPSILON)


def _taken(reading: Reading, chosen: Tensor) -> Reading:
    """The reading of some of the rows; the scale and the start, three numbers, are those of all rows."""
    index = chosen.nonzero().squeeze(1)
    return Reading(reading.scale, reading.limit, reading.x[index], reading.profile.take(index), reading.temperature)


def _raw(smart: SMART, held: Reading, rows: Tensor) -> Tensor:
    """The outputs of a fitted map, before softplus, at some rows of a reading with a scale of its own."""
    values = held.x[rows] * held.scale.std + held.scale.mean
    x = (values.clamp(max=smart.limit_) - smart.mean_) / smart.std_
    return mlp.forward(smart.theta_, smart._sizes(), x)


def shrunk(theta: Tensor, hidden: int, degree: float, flat: float) -> Tensor:
    """The map `degree * output + (1 - degree) * flat`: another set of output weights and bias."""
    found = theta.clone()
    found[-hidden - 1 :] *= degree
    found[-1] += (1.0 - degree) * flat
    return found
