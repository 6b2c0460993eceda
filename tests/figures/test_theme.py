"""The palette against contrast formulas and a model of colour blindness."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import plotly.graph_objects as go
import pytest

from smart_core.calibrators import methods
from smart_core.figures.theme import (
    DARK,
    LIGHT,
    RIGHT,
    WRONG,
    Ink,
    diverging,
    ink,
    palette,
    plain,
    sequential,
    style,
    template,
    translucent,
)

IDS = list(methods())

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
EYES = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


def linear_rgb(color: str) -> np.ndarray:
    value = np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""
    low, high = sorted(float(linear_rgb(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    ratio = np.clip(xyz / [0.9505, 1, 1.089], 0, None)
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, eye: str) -> float:
    """CIE76 colour difference as that eye sees it; 2.3 is just noticeable."""
    seen = [lab(np.clip(np.asarray(EYES[eye]) @ linear_rgb(color), 0, 1)) for color in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def test_every_method_has_its_own_style() -> None:
    assert list(palette()) == IDS
    for what in ("label", "color", "symbol"):
        assert len({getattr(entry, what) for entry in palette().values()}) == len(IDS)
    assert len({(entry.color, entry.dash) for entry in palette().values()}) == len(IDS)


@pytest.mark.parametrize("background", [LIGHT.background, DARK.background])
def test_colors_have_contrast_on_both_backgrounds(background: str) -> None:
    assert all(contrast(entry.color, background) >= 3 for entry in palette().values())


@pytest.mark.parametrize("shade", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable(shade: Ink) -> None:
    assert contrast(shade.text, shade.background) >= 7
    assert contrast(shade.quiet, shade.background) >= 4.5


@pytest.mark.parametrize("eye", EYES)
def test_methods_with_the_same_dash_differ_for_colour_blind_readers(eye: str) -> None:
    for one, other in combinations(palette().values(), 2):
        if one.dash == other.dash:
            assert difference(one.color, other.color, eye) > 15, (one.label, other.label)


def test_smart_is_the_most_prominent() -> None:
    smart = palette()["smart"]
    assert smart.dash == "solid"
    assert all(smart.width > entry.width for id, entry in palette().items() if id != "smart")


def test_every_style_is_one_that_plotly_draws() -> None:
    for id in IDS:
        entry = style(id)
        go.Scatter(line=entry.line(), marker={"symbol": entry.symbol, "color": translucent(entry.color, 0.5)})


def test_unknown_methods_keep_their_name() -> None:
    assert style("mine").label == "mine"


def test_translucent() -> None:
    assert translucent("#0B72C4", 0.25) == "rgba(11, 114, 196, 0.25)"


@pytest.mark.parametrize("dark", [False, True])
def test_templates_match_the_dashboard(dark: bool) -> None:
    import tomllib

    from tests.conftest import ROOT

    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    page = config["theme"]["dark" if dark else "light"]
    assert template(dark).layout.paper_bgcolor == page["backgroundColor"] == ink(dark).background
    assert template(dark).layout.font.color == page["textColor"]


def lightness(color: str) -> float:
    return float(lab(linear_rgb(color))[0])


@pytest.mark.parametrize("dark", [False, True])
def test_sequential_scale_is_ordered_by_lightness_away_from_the_background(dark: bool) -> None:
    steps = np.diff([lightness(color) for _, color in sequential(dark)])
    assert (steps > 5).all() if dark else (steps < -5).all()
    assert contrast(sequential(dark)[-1][1], ink(dark).background) > 7


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("eye", EYES)
def test_both_sides_of_the_diverging_scale_differ_for_colour_blind_readers(dark: bool, eye: str) -> None:
    colors = [color for _, color in diverging(dark)]
    middle = len(colors) // 2
    for below, above in zip(colors[:middle], colors[::-1], strict=False):
        assert difference(below, above, eye) > 15
    for side in (colors[: middle + 1], colors[middle:][::-1]):
        from_middle = [difference(color, side[-1], eye) for color in side]
        assert from_middle == sorted(from_middle, reverse=True)


@pytest.mark.parametrize("dark", [False, True])
def test_zero_of_the_diverging_scale_is_near_the_background_but_visible(dark: bool) -> None:
    scale = diverging(dark)
    assert scale[3][0] == 0.5
    assert 1.05 < contrast(scale[3][1], ink(dark).background) < 1.5


@pytest.mark.parametrize("background", [LIGHT.background, DARK.background])
def test_right_and_wrong_differ_for_colour_blind_readers(background: str) -> None:
    assert all(contrast(entry.color, background) >= 3 for entry in (RIGHT, WRONG))
    assert all(difference(RIGHT.color, WRONG.color, eye) > 30 for eye in EYES)
    assert RIGHT.symbol != WRONG.symbol


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("cat", "cat"),
        ("<b>cat</b>", "&lt;b&gt;cat&lt;/b&gt;"),
        ("salt & pepper", "salt &amp; pepper"),
        ('the "cat"', 'the "cat"'),
        ("%{x}", "&#37;{x}"),
        ("$a$", "&#36;a&#36;"),
        ("two\n lines", "two lines"),
        (7, "7"),
        ("x" * 50, "x" * 39 + "…"),
        ("<" * 50, "&lt;" * 39 + "…"),
    ],
)
def test_text_from_files_is_escaped(text: object, written: str) -> None:
    assert plain(text) == written
