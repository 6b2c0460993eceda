"""The paper's statements as functions, one statement per module.

| module | statement |
|---|---|
| `margin_bounds` | which temperatures give a target confidence, given the margin |
| `certificate` | smCE <= H + 2 B_lambda, and the same for the bin-mean surrogate |
| `nll_probe` | how NLL and a calibration witness move when a margin slice is sharpened |
| `two_slice` | when they move in opposite directions: the condition, a counterexample, and a search on given data |
| `playground` | what methods recover of a known temperature law |
"""
