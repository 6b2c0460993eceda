"""What the pages on temperature and hardness measure, remembered: none of it is fast on a large set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from smart_core import LogitSet
from smart_core.analysis.hardness import Hardness, hardness
from smart_core.analysis.temperature_curve import TemperatureCurve, temperature_curve
from smart_core.calibrators.base import Calibrator


def curve(data: LogitSet, calibrators: Sequence[Calibrator], indicator: str) -> TemperatureCurve:
    """The temperature curve of fits on the validation part of `data`."""
    # a fit follows from the data and its settings, the seed among them
    fits = str([(each.id, each.settings_dict()) for each in calibrators])
    return _curve(data.content_hash, fits, indicator, data, calibrators)


@st.cache_resource(max_entries=64, show_spinner="Reading the temperatures", scope="session")
def _curve(
    content_hash: str, fits: str, indicator: str, _data: LogitSet, _calibrators: Sequence[Calibrator]
) -> TemperatureCurve:
    return temperature_curve(_calibrators, _data.test, indicator, validation=_data.validation)


def distances(data: LogitSet, indicator: str, attacked: Any = None) -> Hardness:
    """The indicator against the test part's C&W distances; `attacked` tells failed attacks from none."""
    digest = hashlib.sha256(np.asarray(data.test.cw_l2).tobytes() + np.asarray(attacked).tobytes()).hexdigest()
    return _distances(f"{data.content_hash} {digest}", indicator, data, attacked)


@st.cache_resource(max_entries=32, show_spinner="Measuring the correlation", scope="session")
def _distances(content_hash: str, indicator: str, _data: LogitSet, _attacked: Any) -> Hardness:
    return hardness(_data.test, indicator, attacked=_attacked)
