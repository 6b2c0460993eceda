"""The paper's statements as functions: one statement a module, under the paper's names.

| module | statement |
|---|---|
| `margin_bounds`, `target_temperature`, `numerical_study` | which T reach a target confidence, given the margin |
| `certificate` | smCE <= H + 2 B_lambda, and the same for the bin-mean surrogate |
| `nll_probe`, `probes`, `scaling_path` | how NLL and a calibration witness move when a margin slice is sharpened |
| `two_slice`, `slice_search` | when they move against each other, and where they do on given data |
| `counterexample` | a set that meets the two-slice condition and whose NLL rises |
| `knot_law`, `playground` | what methods find of a temperature law that is known |
"""
