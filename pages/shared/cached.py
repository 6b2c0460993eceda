"""Engine calls that are remembered, keyed by the SHA-256 of the content and never by a sample of it.

Samples are the same for everybody and kept once. What comes from a session's own file is kept for that session only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

import sample_logits
import smart_core as sc
from smart_core.analysis.margin_groups import MarginGroup, with_intervals
from smart_core.analysis.margin_groups import margin_groups as judged_groups
from smart_core.device import one_thread
from smart_core.evaluation import HEADLINE
from smart_core.experiments.method_result import evaluation_floors, evaluation_interval
from smart_core.metrics.bootstrap import ReliabilityBand, bootstrap_reliability_band
from smart_core.metrics.floor import Floor, noise_floor
from smart_core.metrics.intervals import Interval, interval


def sample(name: str) -> sc.LogitSet:
    """A bundled sample."""
    content = sample_logits.path(name).read_bytes()
    return _load(hashlib.sha256(content).hexdigest(), f"{name}.npz", content)


@st.cache_resource(max_entries=16, show_spinner="Reading the logits")
def _load(content_hash: str, name: str, _content: bytes) -> sc.LogitSet:
    return sc.load(_content, name=name)


def resplit(data: sc.LogitSet, fraction: float, seed: int) -> sc.LogitSet:
    """The rows of both parts, divided anew."""
    return _resplit(data.content_hash, fraction, seed, data)


@st.cache_resource(max_entries=2, show_spinner="Splitting", scope="session")
def _resplit(content_hash: str, fraction: float, seed: int, _data: sc.LogitSet) -> sc.LogitSet:
    return _data.resplit(fraction, seed=seed)


def uncalibrated(data: sc.LogitSet) -> sc.Evaluation:
    """The model's own confidences on the test part, without the slower classwise sums."""
    return _uncalibrated(data.content_hash, data)


@st.cache_resource(max_entries=8, show_spinner="Judging the model", scope="session")
def _uncalibrated(content_hash: str, _data: sc.LogitSet) -> sc.Evaluation:
    # threads that wait for each other are many times slower where jobs keep the cores busy
    with one_thread():
        return sc.evaluate(_as_it_is(_data), _data.test, classwise=False)


def _as_it_is(data: sc.LogitSet) -> sc.Vanilla:
    return sc.Vanilla().fit(data.validation.logits[:2], data.validation.labels[:2])


@dataclass(frozen=True)
class Noise:
    """What sampling noise does to the uncalibrated metric and to the reliability diagram."""

    interval: Interval
    floor: Floor
    band: ReliabilityBand


def ece_noise(data: sc.LogitSet, bins: int) -> Noise:
    """Interval and floor of the uncalibrated ECE, and the band of the reliability diagram."""
    return _ece_noise(data.content_hash, bins, uncalibrated(data))


@st.cache_data(max_entries=64, show_spinner="Measuring the noise", scope="session")
def _ece_noise(content_hash: str, bins: int, _judged: sc.Evaluation) -> Noise:
    confidence, correct = _judged.confidence, _judged.correct
    floor = noise_floor("ece", confidence, bins=bins)
    return Noise(
        interval("ece", confidence, correct, floor=floor, bins=bins),
        floor,
        bootstrap_reliability_band(confidence, correct, bins=bins),
    )


@dataclass(frozen=True)
class Headline:
    """Value, interval and, where it has one, noise floor of every headline metric of the uncalibrated model."""

    values: dict[str, float]
    intervals: dict[str, Interval]
    floors: dict[str, Floor]


def headline(data: sc.LogitSet, bins: int) -> Headline:
    """What noise makes of the model's own figures."""
    return _headline(data.content_hash, bins, data)


@st.cache_data(max_entries=32, show_spinner="Measuring every metric", scope="session")
def _headline(content_hash: str, bins: int, _data: sc.LogitSet) -> Headline:
    with one_thread():
        judged = sc.evaluate(_as_it_is(_data), _data.test, bins=bins)
    floors = evaluation_floors(judged, bins)
    return Headline(
        {name: judged.metric(name, bins) for name in HEADLINE},
        {name: evaluation_interval(name, judged, bins, floors.get(name)) for name in HEADLINE},
        floors,
    )


@dataclass(frozen=True)
class FitNoise:
    """What sampling noise does to the ECE of one fit."""

    interval: Interval
    floor: Floor


def fit_noise(judged: sc.Evaluation, bins: int) -> FitNoise:
    """Interval and floor of the ECE of a fit on test."""
    return _fit_noise(_digest(judged), bins, judged)


def _digest(judged: sc.Evaluation) -> str:
    return hashlib.sha256(judged.confidence.tobytes() + judged.correct.tobytes()).hexdigest()


@st.cache_data(max_entries=64, show_spinner="Measuring the noise", scope="session")
def _fit_noise(content_hash: str, bins: int, _judged: sc.Evaluation) -> FitNoise:
    floor = noise_floor("ece", _judged.confidence, bins=bins)
    return FitNoise(interval("ece", _judged.confidence, _judged.correct, floor=floor, bins=bins), floor)


def margin_groups(data: sc.LogitSet, judged: sc.Evaluation, edges: Sequence[float], bins: int) -> list[MarginGroup]:
    """The margin groups of a fit on the test part of `data`."""
    return _margin_groups(f"{data.content_hash} {_digest(judged)}", tuple(edges), bins, judged)


@st.cache_resource(max_entries=64, show_spinner=False, scope="session")
def _margin_groups(content_hash: str, edges: tuple[float, ...], bins: int, _judged: sc.Evaluation) -> list[MarginGroup]:
    return judged_groups(_judged, edges, bins)


def group_intervals(data: sc.LogitSet, judged: sc.Evaluation, edges: Sequence[float], bins: int) -> list[MarginGroup]:
    """The same groups with the interval of each one's ECE."""
    return _group_intervals(f"{data.content_hash} {_digest(judged)}", tuple(edges), bins, judged)


@st.cache_resource(max_entries=64, show_spinner="Measuring the noise", scope="session")
def _group_intervals(
    content_hash: str, edges: tuple[float, ...], bins: int, _judged: sc.Evaluation
) -> list[MarginGroup]:
    return with_intervals(_judged, _margin_groups(content_hash, edges, bins, _judged), bins)
