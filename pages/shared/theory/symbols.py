"""The symbols of the Theory page, explained in tooltips."""

from __future__ import annotations

import re

from pages.shared.components import plain_text

MEANINGS = {
    "a": "1 if the prediction is correct, else 0",
    "p": "confidence: the largest calibrated probability",
    "q*": "true probability that the prediction is correct, known in the simulator only",
    "m": "margin: largest minus second largest logit",
    "T": "temperature that the logits are divided by",
    "σ": "bandwidth of the soft bins",
    "δ": "Charbonnier smoothing",
    "λ": "1 / (2 σ²), the scale of the Gaussian kernel",
    "smCE": "smooth calibration error: the largest witness over 1-Lipschitz probes",
    "H": "mean of √((a − u)² + δ²) over the kernel around each confidence; it contains the label noise",
    "ε_agg": "bin-aggregation mismatch: mean distance of a − p from its mean in the soft bins",
    "B_λ": "bias of the kernel: the largest mean distance |p − u| that it spreads a confidence over",
    "ψ": "probe: a function of the confidence between −1 and 1",
    "C": "witness: the mean of ψ(p) (a − p)",
    "c": "depth of the probe",
    "s": "scale of the slice's logits: 1 / T is multiplied by it",
    "J_O, J_U": "overconfident and underconfident range of the confidence",
    "ρ_O, ρ_U": "mean gap in these ranges",
    "μ_O, μ_U": "mass of the slice in these ranges",
    "γ_min, γ_max": "smallest and largest m / T in the slice",
    "Δ_G": "largest spread of the other logits / T",
    "ε": "mass of the slice on the ramps of the probe",
}
"""Symbol -> its meaning."""


_SUBSCRIPT = re.compile(r"(?<![A-Za-z])([A-Za-zΔ-ω])_([A-Za-zα-ω]+)")


def typeset(text: str) -> str:
    """Return a text with its indexed symbols, written as `B_λ`, set as formulas.

    >>> print(typeset("H ≤ H_bin + B_λ"))
    H ≤ $H_\\text{bin}$ + $B_λ$
    """
    return _SUBSCRIPT.sub(lambda found: f"${found[1]}_{_index(found[2])}$", text)


def _index(name: str) -> str:
    return name if len(name) == 1 else f"\\text{{{name}}}"


def meaning(*symbols: str) -> str:
    """Return the tooltip that explains these symbols, one per line."""
    names = [typeset(symbol).replace("*", r"\*") for symbol in symbols]
    lines = [f"- **{name}**: {plain_text(MEANINGS[each])}" for name, each in zip(names, symbols, strict=True)]
    return "\n".join(lines)
