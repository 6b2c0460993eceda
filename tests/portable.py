"""The numeric tests again as other processors compute them: `python -m tests.portable`, with `--short` in a minute.

NumPy, PyTorch with MKL and oneDNN, OpenBLAS, numba and the C library each pick their code by the processor they find.
A variant makes all of them pick other code: sums run in another order, products and sums are no longer fused, exp and
log are other polynomials. A test that holds on one processor by its last bits fails here.

That the libraries obey is read back from them, in a process before each run and in every process of the run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

NUMERIC = ("tests", *(f"--ignore=tests/{shown}" for shown in ("app", "browser", "robustness")))
"""Where numbers are computed and compared; the folders left out show them and break files."""

SHORT = tuple(
    f"tests/{path}"
    for path in (
        *("kernels/test_elementary.py", "kernels/test_logit_rows.py", "kernels/test_partition.py"),
        *("kernels/test_probability_rows.py", "kernels/test_smart_objective.py", "export/test_numpy_code.py"),
        *("calibrators/test_cts.py", "calibrators/test_isotonic.py", "calibrators/test_lbfgs.py"),
        *("calibrators/test_matrix.py", "calibrators/test_smart.py", "calibrators/test_ts.py"),
        *("metrics/test_binned.py", "metrics/test_classwise.py", "theory/test_margin_bounds.py"),
        *("test_evaluation.py", "test_profile.py", "test_training.py"),
    )
)
"""Those whose bounds are nearest to the arithmetic."""

LONGEST = ("makes_no_matrix", "fits_at_the_edge", "30000", "u_shaped", "real_cifar10", "another_device", "orderings")
"""What takes longest of them, and tells least of it, by parts of the tests' names."""

VARIANT = "SMART_TEST_VARIANT"


@dataclass(frozen=True)
class Variant:
    """What the libraries are told, and what they must say of themselves then."""

    threads: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    says: dict[str, Any] = field(default_factory=dict)
    aloud: dict[str, str] = field(default_factory=dict)
    without_numpy_features: bool = False


WITHOUT_FUSED = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable,-FMA4_Usable"
"""By the names of the GNU C library from 2.33 on, and before."""

VARIANTS = {
    "no vector instructions but SSE, one thread": Variant(
        1,
        {
            "ATEN_CPU_CAPABILITY": "default",
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_CPU_FEATURES": "",
            "MKL_CBWR": "COMPATIBLE",
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "OPENBLAS_CORETYPE": "Prescott",
            "GLIBC_TUNABLES": WITHOUT_FUSED,
        },
        {"torch": "DEFAULT", "numba": ["generic", ""], "openblas": ["Katmai"]},  # OpenBLAS's other name of Prescott
        {"mkl": "CNR:COMPATIBLE", "onednn": "isa:Intel SSE4.1"},
        without_numpy_features=True,
    ),
    "AVX without fused products, two threads": Variant(
        2,
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "NUMBA_CPU_NAME": "sandybridge",
            "NUMBA_CPU_FEATURES": "+sse4.2,+popcnt,+avx",
            "ONEDNN_MAX_CPU_ISA": "AVX",
            "OPENBLAS_CORETYPE": "Sandybridge",
            "GLIBC_TUNABLES": WITHOUT_FUSED,
        },
        {"torch": "AVX2", "numba": ["sandybridge", "+sse4.2,+popcnt,+avx"], "openblas": ["Sandybridge"]},
        {"onednn": "isa:Intel AVX "},
    ),
}
"""Of x86-64; elsewhere the libraries have no such settings, and the tests run with two threads only."""

ELSEWHERE = {"as it is, two threads": Variant(2)}


def in_effect() -> dict[str, Any]:
    """What each library says it computes with."""
    import numba.core.registry
    import scipy.linalg  # noqa: F401 - SciPy has an OpenBLAS of its own
    import torch
    from threadpoolctl import threadpool_info

    _, name, features = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()
    openblas = [library for library in threadpool_info() if library["internal_api"] == "openblas"]
    return {
        "torch": torch.backends.cpu.get_cpu_capability(),
        "numba": [name, features],
        "numpy": numpy_features(),
        "openblas": sorted({library["architecture"] for library in openblas}),
        "threads": sorted({library["num_threads"] for library in openblas}),
        "libm": libm(),
    }


def libm() -> str:
    """A digest of the C library's exp, whose last bits differ with its instructions."""
    return hashlib.sha256(repr([math.exp(0.01 * k) for k in range(-3000, 3000)]).encode()).hexdigest()


def numpy_features() -> list[str]:
    """Instructions beyond its baseline that NumPy uses here."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]


PROBE = """
import json, torch
from tests import portable
square = torch.randn(64, 64)
square @ square
torch.nn.functional.conv2d(torch.randn(2, 3, 32, 32), torch.randn(8, 3, 3, 3))
print(json.dumps(portable.in_effect()))
"""
"""Work that makes MKL and oneDNN print what they take, and what the others say."""


def environment_of(name: str, variant: Variant) -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "SMART_TEST_THREADS"), str(variant.threads))
    disabled = {"NPY_DISABLE_CPU_FEATURES": " ".join(numpy_features())} if variant.without_numpy_features else {}
    return {**os.environ, **threads, **variant.environment, **disabled, VARIANT: name}


def refusals(name: str, found: dict[str, Any], printed: str | None = None) -> list[str]:
    """Which settings of a variant the libraries do not follow; `printed` holds the words of those that only print."""
    variant = (VARIANTS | ELSEWHERE)[name]
    wanted = {**variant.says, "threads": [variant.threads], **({"numpy": []} if variant.without_numpy_features else {})}
    wrong = [f"{key} is {found[key]}, not {value}" for key, value in wanted.items() if found.get(key, value) != value]
    if printed is not None:
        words = printed.replace(",", " ").split()
        wrong += [f"{key} does not say {said}" for key, said in variant.aloud.items() if said not in " ".join(words)]
        if "GLIBC_TUNABLES" in variant.environment and platform.libc_ver()[0] == "glibc" and found["libm"] == libm():
            wrong.append("the C library's exp is still the same")
    return wrong


def proved(name: str, environment: dict[str, str]) -> list[str]:
    """Refusals as a new process finds them."""
    aloud = {**environment, "MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, env=aloud, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    return refusals(name, json.loads(done.stdout.splitlines()[-1]), done.stdout)


def pytest_configure(config: pytest.Config) -> None:
    """With `-p tests.portable`: no test runs in a process where a setting was not followed."""
    if VARIANT in os.environ and (wrong := refusals(os.environ[VARIANT], in_effect())):
        raise pytest.UsageError(f"{os.environ[VARIANT]}: {'; '.join(wrong)}")


def run(name: str, variant: Variant, tests: tuple[str, ...], cache: str) -> bool:
    """Whether the tests pass under a variant; compiled loops are its own, in a folder of its own."""
    environment = {**environment_of(name, variant), "NUMBA_CACHE_DIR": cache}
    began = time.monotonic()
    wrong = proved(name, environment)
    if not wrong:
        command = [sys.executable, "-m", "pytest", "-p", "tests.portable", "-n", "2", "--dist", "loadscope"]
        done = subprocess.run([*command, *tests], env=environment, cwd=ROOT, check=False)
        wrong = [f"pytest ended with {done.returncode}"] if done.returncode else []
    print(f"{name}: {'; '.join(wrong) or 'passed'} ({time.monotonic() - began:.0f} s)", flush=True)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.portable", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the most sensitive tests, under the first variant")
    short = parser.parse_args().short
    variants = VARIANTS if platform.machine() in ("x86_64", "AMD64") and sys.platform == "linux" else ELSEWHERE
    chosen = list(variants.items())[: 1 if short else None]
    with tempfile.TemporaryDirectory() as cache:
        tests = (*SHORT, "-k", " and ".join(f"not {name}" for name in LONGEST)) if short else NUMERIC
        passed = [run(name, variant, tests, cache) for name, variant in chosen]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
