"""Engine calls that are remembered, keyed by the SHA-256 of the content and never by a sample of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import streamlit as st

import sample_logits
import smart_core as sc
from smart_core.metrics.bootstrap import ReliabilityBand, bootstrap_reliability_band
from smart_core.metrics.floor import Floor, noise_floor
from smart_core.metrics.intervals import Interval, interval


def sample(name: str) -> sc.LogitSet:
    """A bundled sample."""
    content = sample_logits.path(name).read_bytes()
    return _load(hashlib.sha256(content).hexdigest(), f"{name}.npz", content)


@st.cache_resource(max_entries=4, show_spinner="Reading the logits")
def _load(content_hash: str, name: str, _content: bytes) -> sc.LogitSet:
    return sc.load(_content, name=name)


def uncalibrated(data: sc.LogitSet) -> sc.Evaluation:
    """The model's own confidences on the test part."""
    return _uncalibrated(data.content_hash, data)


@st.cache_resource(max_entries=8, show_spinner="Judging the model")
def _uncalibrated(content_hash: str, _data: sc.LogitSet) -> sc.Evaluation:
    model = sc.Vanilla().fit(_data.validation.logits, _data.validation.labels)
    return sc.evaluate(model, _data.test)


@dataclass(frozen=True)
class Noise:
    """What sampling noise does to the uncalibrated ECE and to the reliability diagram."""

    interval: Interval
    floor: Floor
    band: ReliabilityBand


def ece_noise(data: sc.LogitSet, bins: int) -> Noise:
    """Interval and floor of the uncalibrated ECE, and the band of the reliability diagram."""
    return _ece_noise(data.content_hash, bins, uncalibrated(data))


@st.cache_data(max_entries=64, show_spinner="Measuring the noise")
def _ece_noise(content_hash: str, bins: int, _judged: sc.Evaluation) -> Noise:
    confidence, correct = _judged.confidence, _judged.correct
    return Noise(
        interval("ece", confidence, correct, bins=bins),
        noise_floor("ece", confidence, bins=bins),
        bootstrap_reliability_band(confidence, correct, bins=bins),
    )
