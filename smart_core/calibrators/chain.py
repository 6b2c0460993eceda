"""Two methods in a row: the second reads, and is fitted on, the log-probabilities that the first one gives.

`Composite` is what a chain and Refined SMART share: named parts whose learned tensors, checks and exported code are its
own under their names.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from textwrap import dedent, indent
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.registry import CHAINED, get, method_named
from smart_core.calibrators.settings import Setting
from smart_core.calibrators.temperature import TemperatureCalibrator, lift_top
from smart_core.device import precise, rows_per_chunk
from smart_core.errors import CalibrationError
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

FIRST, SECOND = "first", "second"
"""Names of the parts: `second_theta_` is a learned tensor, and `second.sigma` a setting, of the second one."""

COMMON = ("seed", "device")
"""Settings that both parts have from the chain."""


class Composite(Calibrator):
    """Parts in a row, each on the log-probabilities of the one before."""

    parts_: dict[str, Calibrator]

    @property
    def keeps_top1(self) -> bool:
        return all(part.keeps_top1 for part in self.parts_.values())

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts_.values())

    def learned(self) -> dict[str, Shape]:
        return {
            f"{name}_{tensor}": tuple(_own_symbol(name, length) for length in shape)
            for name, part in self.parts_.items()
            for tensor, shape in part.learned().items()
        }

    def state(self) -> dict[str, Tensor]:
        self._check_fitted()
        return {f"{name}_{key}": value for name, part in self.parts_.items() for key, value in part.state().items()}

    def with_state(self, tensors: Mapping[str, Tensor]) -> Self:
        found = copy.copy(self)
        found.parts_ = {
            name: part.with_state({key: tensors[f"{name}_{key}"] for key in part.learned()})
            for name, part in self.parts_.items()
        }
        return found

    def bare(self) -> Self:
        found = copy.copy(self)
        found.parts_ = {name: part.bare() for name, part in self.parts_.items()}
        return found

    def restore(self, classes: int, features_used: bool, notices: list[str], decided: Mapping[str, Any]) -> None:
        super().restore(classes, features_used, notices, decided)
        for part in self.parts_.values():
            part.restore(classes, features_used and "features" in (*part.needs, *part.uses), [], {})

    def check_learned(self) -> None:
        for part in self.parts_.values():
            part.check_learned()

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        first, *others = self.parts_.values()
        rows = first._probabilities(logits, features if first.features_used_ else None)
        for part in others:
            rows = part._probabilities(log_rows(rows), features if part.features_used_ else None)
        return lift_top(rows, logits) if self.keeps_top1 else rows

    def _widest_row(self) -> int:
        return max(part._widest_row() for part in self.parts_.values())

    def numpy_code(self) -> str | None:
        codes = {name: part.numpy_code() for name, part in self.parts_.items()}
        if None in codes.values():
            return None
        functions = [_numpy_function(name, part, codes[name] or "") for name, part in self.parts_.items()]
        rows = "z"
        for number, (name, part) in enumerate(self.parts_.items()):
            given = f"log_rows({rows})" if number else rows
            rows = f"{name}({given}{', x' if part.features_used_ else ''})"
        return "\n\n".join([*functions, f"return {f'lift_top({rows}, z)' if self.keeps_top1 else rows}"])


def _own_symbol(name: str, length: int | str) -> int | str:
    """A length that the data decide, under a symbol of this part; parts share `d`, the width of the features."""
    return length if isinstance(length, int) or length == "d" else f"{name}.{length}"


def _numpy_function(name: str, part: Calibrator, code: str) -> str:
    """A part's code as a function of its rows, with its learned tensors under the names that the whole gives them."""
    for tensor in part.learned():
        constant = tensor.rstrip("_").upper()
        code = re.sub(rf"\b{constant}\b", f"{name.upper()}_{constant}", code)
    arguments = "z: np.ndarray, x: np.ndarray" if part.features_used_ else "z: np.ndarray"
    if isinstance(part, TemperatureCalibrator):
        body = indent(dedent(code).strip(), "    ")
        return (
            f"def {name}_temperatures({arguments}) -> np.ndarray:\n{body}\n\n"
            f"def {name}({arguments}) -> np.ndarray:\n    return tempered_softmax(z, {name}_temperatures(z))"
        )
    return f"def {name}({arguments}) -> np.ndarray:\n{indent(dedent(code).strip(), '    ')}"


def log_rows(probabilities: Tensor) -> Logits:
    """`log p`, float32, of probabilities, which are kept above the least normal float32."""
    return Logits(torch.log(precise(probabilities.clamp(min=torch.finfo(torch.float32).tiny))).float())


def outputs(part: Calibrator, data: FitData, run: Run) -> Logits:
    """The log-probabilities that a fitted method gives on the rows of a fit."""
    size = rows_per_chunk(data.classes)
    found: list[Tensor] = []
    for start in range(0, len(data), size):
        run.tick(0.0, f"applying {part.label}")
        rows = slice(start, start + size)
        features = data.features[rows] if part.features_used_ and data.features is not None else None
        with torch.no_grad():
            found.append(log_rows(part._probabilities(Logits(data.logits[rows]), features)))
    return Logits(torch.cat(found))


class Chain(Composite):
    """`q = second(log first(z))`: the second method on the log-probabilities that the first one gives.

    The first is fitted on validation, the second on the first one's outputs of the same rows, so a first method that
    overfits leaves the second too little to repair. Settings of the parts are `first.NAME` and `second.NAME`. The id of
    a chain is that of its methods with a plus between them, which every list of methods takes: `svs+smart`.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> chain = sc.Chain([sc.SVS(), sc.SMART(epochs=50)]).fit(data.validation.logits, data.validation.labels)
    >>> chain.id, chain.label, chain.parameters
    ('svs+smart', 'SVS then SMART', 70)
    """

    family = "Chains"
    kinds: ClassVar[tuple[type[Calibrator], type[Calibrator]]]
    """The classes of both parts; `chain_of` makes a class for each pair."""

    def __new__(cls, methods: Sequence[Calibrator | str] = (), **settings: Any) -> Self:
        if hasattr(cls, "kinds"):
            return super().__new__(cls)
        first, second = _pair(methods)
        kind = method_named(f"{first.id}{CHAINED}{second.id}")
        assert issubclass(kind, cls)
        return super().__new__(kind)

    def __init__(self, methods: Sequence[Calibrator | str] = (), **settings: Any) -> None:
        pair = _pair(methods) if methods else tuple(kind() for kind in self.kinds)
        self.parts_ = dict(zip((FIRST, SECOND), map(copy.copy, pair), strict=True))
        for name in COMMON:
            setattr(self, name, settings.pop(name, _common(name, pair)))
        for name, value in settings.items():
            part, _, own = name.partition(".")
            if part not in self.parts_ or own not in {item.name for item in self.parts_[part].settings()}:
                raise TypeError(f"{self.label} has no setting {name!r}")
            setattr(self.parts_[part], own, value)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.parts_.values()))}])"

    def __reduce__(self) -> tuple[Any, ...]:
        """Classes of chains are made on demand, so a copy names the chain and not its class."""
        return _empty, (self.id,), self.__dict__

    @classmethod
    def settings(cls) -> tuple[Setting, ...]:
        """Seed and device, and the other settings of both parts under the parts' names."""
        if not hasattr(cls, "kinds"):
            return ()
        common = [item for item in cls.kinds[0].settings() if item.name in COMMON]
        own = [
            replace(item, name=f"{name}.{item.name}")
            for name, kind in zip((FIRST, SECOND), cls.kinds, strict=True)
            for item in kind.settings()
            if item.name not in COMMON
        ]
        return (*common, *own)

    def settings_dict(self) -> dict[str, Any]:
        own = {
            f"{name}.{key}": value
            for name, part in self.parts_.items()
            for key, value in part.settings_dict().items()
            if key not in COMMON
        }
        return {name: getattr(self, name) for name in COMMON} | own

    def _make_plain(self) -> None:
        for item in Calibrator.settings():
            setattr(self, item.name, item.plain(getattr(self, item.name)))
        if isinstance(self.device, torch.device):
            self.device = str(self.device)
        for part in self.parts_.values():
            part.seed, part.device = self.seed, self.device
            part._make_plain()

    def check_settings(self) -> None:
        self._make_plain()
        for part in self.parts_.values():
            part.check_settings()

    def _fit(self, data: FitData, run: Run) -> None:
        first, second = self.parts_.values()
        first._fit_rows(data, run.part(0.0, 0.5, traced=False))
        logits = outputs(first, data, run.part(0.5, 0.5))
        second._fit_rows(replace(data, logits=logits), run.part(0.5, 1.0))
        self.features_used_ = first.features_used_ or second.features_used_
        self.notices_ += [f"{part.label}: {notice}" for part in (first, second) for notice in part.notices_]


def _pair(methods: Sequence[Calibrator | str]) -> tuple[Calibrator, Calibrator]:
    """Both parts, from calibrators or ids."""
    if isinstance(methods, str) or not isinstance(methods, Sequence) or len(methods) != 2:
        raise CalibrationError("A chain is two methods in a list: sc.Chain([first, second]).")
    first, second = (get(method) if isinstance(method, str) else method for method in methods)
    if not isinstance(first, Calibrator) or not isinstance(second, Calibrator):
        raise CalibrationError("A chain is two methods: calibrators such as sc.SVS(), or their ids.")
    if isinstance(first, Chain) or isinstance(second, Chain):
        raise CalibrationError("The parts of a chain are single methods, not chains.")
    return first, second


def _common(name: str, pair: tuple[Calibrator, ...]) -> Any:
    """The seed or device of both parts: the one that is not the default's; two that differ are an error."""
    default = next(item.default for item in pair[0].settings() if item.name == name)
    given = {getattr(part, name) for part in pair} - {default}
    if len(given) > 1:
        raise CalibrationError(f"The parts of a chain share one {name}: sc.Chain([first, second], {name}=...).")
    return given.pop() if given else default


def _empty(id: str) -> Chain:
    chain = method_named(id)
    assert issubclass(chain, Chain)
    return object.__new__(chain)


@cache
def chain_of(first_id: str, second_id: str) -> type[Chain]:
    """The class of a chain of two methods of the registry."""
    first, second = pair = (method_named(first_id), method_named(second_id))
    if "head" in second.needs:
        raise CalibrationError(f"{second.label} computes its own logits from the features; it can only come first.")
    label = f"{first.label} then {second.label}"
    summary = f"{second.label} on the log-probabilities that {first.label} gives."
    attributes = {
        "__doc__": f"{label}: {summary}",
        "__module__": __name__,
        "kinds": pair,
        "id": f"{first.id}{CHAINED}{second.id}",
        "label": label,
        "summary": summary,
        "position": 1000 + 100 * first.position + second.position,
        "style": LineStyle(first.style.color, "13px,3px,2px,3px", _other_symbol(second.style.symbol), 2.5),
        "needs": tuple(dict.fromkeys((*first.needs, *second.needs))),
        "uses": tuple(dict.fromkeys((*first.uses, *second.uses))),
        "stochastic": first.stochastic or second.stochastic,
        "traceable": first.traceable and second.traceable,
        "infinite": tuple(
            f"{name}_{tensor}" for name, kind in zip((FIRST, SECOND), pair, strict=True) for tensor in kind.infinite
        ),
        "libraries": tuple(dict.fromkeys((*first.libraries, *second.libraries))),
    }
    return type(f"Chain_{first.id}_{second.id}", (Chain,), attributes)


def _other_symbol(symbol: str) -> str:
    """The open form of a filled marker, and the filled form of an open one."""
    return symbol.removesuffix("-open") if symbol.endswith("-open") else f"{symbol}-open"
