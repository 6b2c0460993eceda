"""One battery that every calibrator of the registry runs through."""

from __future__ import annotations

import inspect
import random
import threading
import warnings

import numpy as np
import pytest
import torch

from smart_core.calibrators import TemperatureCalibrator, get, load_calibrator, methods
from smart_core.errors import CalibrationError, CalibratorFileError, Cancelled
from tests.calibrators.fits import ALL, QUICK, fit_again, fitted
from tests.calibrators.problems import Problem, over_confident


def assert_probabilities(rows: np.ndarray, shape: tuple[int, int]) -> None:
    assert rows.shape == shape
    assert np.isfinite(rows).all()
    assert (rows >= 0.0).all()
    np.testing.assert_allclose(rows.sum(axis=1, dtype=np.float64), 1.0, atol=1e-5 + shape[1] * 2**-24)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return over_confident(600, 6, seed=1)


def test_the_registry_holds_every_id_in_order():
    ids = "vanilla ts ets vector matrix dirichlet pts cts spline gc procal fc histogram isotonic bbq beta smart"
    assert [id for id in methods() if id in ids.split()] == ids.split()


@pytest.mark.parametrize("id", ALL)
def test_rows_are_probabilities_and_numpy_equals_torch(id: str, problem: Problem):
    from_numpy = fitted(id, problem)
    rows = from_numpy.predict_proba(problem.logits, features=problem.features)
    assert rows.dtype == np.float32
    assert_probabilities(rows, problem.logits.shape)
    tensors = [torch.from_numpy(a) for a in (problem.logits, problem.labels, problem.features)]
    head = tuple(torch.from_numpy(part) for part in problem.head)
    from_torch = get(id, **QUICK.get(id, {})).fit(tensors[0], tensors[1], features=tensors[2], head=head)
    torch_rows = from_torch.predict_proba(tensors[0], features=tensors[2])
    assert isinstance(torch_rows, torch.Tensor)
    np.testing.assert_array_equal(rows, torch_rows.numpy())


@pytest.mark.parametrize("id", ALL)
def test_stochastic_says_whether_the_seed_matters(id: str, problem: Problem):
    first, second = (
        fitted(id, problem, seed=seed).predict_proba(problem.logits, features=problem.features) for seed in (0, 1)
    )
    assert np.array_equal(first, second) != methods()[id].stochastic


@pytest.mark.parametrize("id", ALL)
def test_saved_and_loaded_gives_the_same_bits(id: str, problem: Problem, tmp_path):
    calibrator = fitted(id, problem)
    path = tmp_path / "calibrator.safetensors"
    calibrator.save(path)
    loaded = load_calibrator(path)
    assert loaded.settings_dict() == calibrator.settings_dict()
    assert loaded.notices_ == calibrator.notices_
    assert loaded.parameters == calibrator.parameters
    before = calibrator.predict_proba(problem.logits, features=problem.features)
    np.testing.assert_array_equal(before, loaded.predict_proba(problem.logits, features=problem.features))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("id", [id for id in ALL if id != "vanilla"])
def test_an_over_confident_model_is_repaired(id: str, problem: Problem):
    """On the data it was fitted to, each method must shrink the gap between confidence and accuracy."""

    def gap(rows: np.ndarray) -> float:
        return abs(rows.max(axis=1).mean() - (rows.argmax(axis=1) == problem.labels).mean())

    before = get("vanilla").fit(problem.logits, problem.labels).predict_proba(problem.logits)
    after = fitted(id, problem).predict_proba(problem.logits, features=problem.features)
    assert gap(before) > 0.1
    # clipping can only choose among clipped models, none of which need be close to calibrated
    assert gap(after) < (0.99 if id == "fc" else 0.5) * gap(before)


@pytest.mark.parametrize("id", ALL)
def test_keeps_top1_is_true_on_new_rows(id: str, problem: Problem):
    calibrator = fitted(id, problem)
    if not calibrator.keeps_top1:
        assert id in ("vector", "matrix", "dirichlet", "cts", "spline", "fc", "svs", "sms")
        return
    other = over_confident(4000, 6, seed=9)
    near_tie = other.logits[:500].copy()
    order = np.argsort(near_tie, axis=1)
    rows = np.arange(len(near_tie))
    near_tie[rows, order[:, -2]] = np.nextafter(near_tie[rows, order[:, -1]], np.float32(-np.inf))
    for logits, features in ((other.logits, other.features), (near_tie, other.features[:500])):
        top = calibrator.predict_proba(logits, features=features).argmax(axis=1)
        np.testing.assert_array_equal(top, logits.argmax(axis=1))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("id", ALL)
def test_few_classes(id: str, classes: int):
    small = over_confident(200, classes, seed=2)
    rows = fitted(id, small).predict_proba(small.logits, features=small.features)
    assert_probabilities(rows, small.logits.shape)


@pytest.mark.parametrize("id", ALL)
def test_fifty_samples(id: str):
    small = over_confident(50, 10, seed=3)
    many = over_confident(300, 10, seed=4)
    rows = fitted(id, small).predict_proba(many.logits, features=many.features)
    assert_probabilities(rows, many.logits.shape)


@pytest.mark.parametrize("id", ALL)
def test_a_class_missing_from_validation(id: str):
    full = over_confident(500, 5, seed=5)
    kept = full.labels != 2
    calibrator = get(id, **QUICK.get(id, {})).fit(
        full.logits[kept], full.labels[kept], features=full.features[kept], head=full.head
    )
    rows = calibrator.predict_proba(full.logits, features=full.features)
    assert_probabilities(rows, full.logits.shape)
    assert (rows[:, 2] > 0.0).any()


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("id", ALL)
def test_all_correct_and_all_wrong(id: str, right: bool):
    base = over_confident(200, 4, seed=6)
    top = base.logits.argmax(axis=1)
    labels = top if right else (top + 1) % 4
    calibrator = get(id, **QUICK.get(id, {})).fit(base.logits, labels, **base.fit_arguments())
    rows = calibrator.predict_proba(base.logits, features=base.features)
    assert_probabilities(rows, base.logits.shape)


@pytest.mark.parametrize("id", ALL)
def test_constant_and_huge_logits(id: str):
    base = over_confident(120, 4, seed=7)
    constant = np.zeros_like(base.logits)
    huge = base.logits * np.float32(1e30)
    largest = np.sign(base.logits) * np.float32(3.3e38)  # two of them differ by more than float32 holds
    for logits in (constant, huge, largest):
        calibrator = get(id, **QUICK.get(id, {})).fit(logits, base.labels, **base.fit_arguments())
        rows = calibrator.predict_proba(logits, features=base.features)
        assert_probabilities(rows, logits.shape)
    ordinary = fitted(id, base)
    for logits in (huge, largest):
        assert_probabilities(ordinary.predict_proba(logits, features=base.features), logits.shape)


@pytest.mark.parametrize("id", [id for id in ALL if id != "vanilla"])
def test_cancel_and_progress(id: str, problem: Problem):
    token = threading.Event()
    token.set()
    with pytest.raises(Cancelled):
        get(id).fit(problem.logits, problem.labels, **problem.fit_arguments(), cancel=token)
    seen: list[float] = []
    get(id, **QUICK.get(id, {})).fit(
        problem.logits,
        problem.labels,
        **problem.fit_arguments(),
        progress=lambda fraction, words: seen.append(fraction),
    )
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


class CountedChecks:
    """A cancel token that counts the checks inside `_fit` and is set from the given one on."""

    def __init__(self, set_at: int | None = None) -> None:
        self.set_at, self.inside, self.checks = set_at, False, 0

    def is_set(self) -> bool:
        self.checks += self.inside
        return self.set_at is not None and self.checks >= self.set_at


@pytest.mark.parametrize("id", [id for id in ALL if id != "vanilla"])
def test_cancel_during_a_fit(id: str, problem: Problem, monkeypatch: pytest.MonkeyPatch):
    """At half of its checks and at the last, both of which come before any method has learned anything."""
    original = methods()[id]._fit
    token = CountedChecks()

    def inside(self, data, run):
        token.inside = True
        try:
            original(self, data, run)
        finally:
            token.inside = False

    monkeypatch.setattr(methods()[id], "_fit", inside)
    settings = {**QUICK.get(id, {}), **({"epochs": 10} if id == "smart" else {})}
    get(id, **settings).fit(problem.logits, problem.labels, **problem.fit_arguments(), cancel=token)
    total = token.checks
    assert total >= 1
    for set_at in sorted({(total + 1) // 2, total}):
        token = CountedChecks(set_at)
        calibrator = get(id, **settings)
        with pytest.raises(Cancelled):
            calibrator.fit(problem.logits, problem.labels, **problem.fit_arguments(), cancel=token)
        assert token.checks == set_at
        with pytest.raises(CalibrationError, match="not fitted"):
            calibrator.predict_proba(problem.logits, features=problem.features)


@pytest.mark.parametrize("id", ALL)
def test_a_seed_gives_the_same_bits_and_leaves_the_global_random_state_alone(id: str, problem: Problem):
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002 - the global state is what is watched
    random.seed(11)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    rows = fit_again(id, problem, seed=3).predict_proba(problem.logits, features=problem.features)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]
    torch.manual_seed(12)
    again = fit_again(id, problem, seed=3).predict_proba(problem.logits, features=problem.features)
    np.testing.assert_array_equal(rows, again)


@pytest.mark.parametrize("id", ALL)
def test_arrays_of_other_types_give_the_same(id: str):
    small = over_confident(120, 4, seed=3)
    calibrator = fitted(id, small)
    expected = calibrator.predict_proba(small.logits, features=small.features)
    others = {
        "lists": (small.logits.tolist(), small.labels.tolist(), small.features.tolist()),
        "big endian": (small.logits.astype(">f4"), small.labels.astype(">i8"), small.features.astype(">f4")),
        "columns first": tuple(np.asfortranarray(a) for a in (small.logits, small.labels, small.features)),
        "long": (small.logits.astype(np.longdouble), small.labels.astype(np.uint16), small.features.astype(float)),
    }
    for kind, (logits, labels, features) in others.items():
        rows = calibrator.predict_proba(logits, features=features)
        np.testing.assert_array_equal(rows, expected, err_msg=kind)
        again = get(id, **QUICK.get(id, {})).fit(logits, labels, features=features, head=small.head)
        rows = again.predict_proba(small.logits, features=small.features)
        np.testing.assert_array_equal(rows, expected, err_msg=kind)
        if isinstance(calibrator, TemperatureCalibrator):
            np.testing.assert_array_equal(
                calibrator.temperatures(logits), calibrator.temperatures(small.logits), err_msg=kind
            )


def test_read_only_arrays_need_no_warning_filter(problem: Problem):
    logits = problem.logits.copy()
    logits.flags.writeable = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = get("ts").fit(logits, problem.labels)
        rows = calibrator.predict_proba(logits)
    assert caught == []
    rows[:] = 0.0  # the result is the caller's own
    np.testing.assert_array_equal(logits, problem.logits)


@pytest.mark.parametrize("id", ALL)
def test_rows_that_cannot_be_calibrated_are_one_sentence(id: str, problem: Problem):
    calibrator = fitted(id, problem)
    for value in (np.nan, np.inf):
        spoiled = problem.logits.copy()
        spoiled[7, 2] = value
        with pytest.raises(CalibrationError, match="row 7 of the logits holds NaN or infinity"):
            calibrator.predict_proba(spoiled, features=problem.features)
        if isinstance(calibrator, TemperatureCalibrator):
            with pytest.raises(CalibrationError, match="row 7 of the logits"):
                calibrator.temperatures(spoiled)
    with pytest.raises(CalibrationError, match="rows differ in length"):
        calibrator.predict_proba([[1.0, 2.0], [1.0]])
    with pytest.raises(CalibrationError, match="must be numbers"):
        calibrator.predict_proba([["a"] * 6])
    if calibrator.features_used_:
        features = problem.features.copy()
        features[9, 0] = np.nan
        with pytest.raises(CalibrationError, match="row 9 of the features"):
            calibrator.predict_proba(problem.logits, features=features)
        with pytest.raises(CalibrationError, match="8 features per row"):
            calibrator.predict_proba(problem.logits, features=features[:, :3])
        with pytest.raises(CalibrationError, match="give features="):
            calibrator.predict_proba(problem.logits)


@pytest.mark.parametrize("id", ALL)
def test_help_explains_every_setting(id: str):
    text = inspect.getdoc(methods()[id])
    for described in methods()[id].settings():
        assert f"{described.name} = {described.default!r}: {described.help}" in text
    assert text.count("Settings:") == 1


def test_settings_may_be_numpy_numbers():
    calibrator = get("smart", sigma=np.float32(0.1), epochs=np.int64(3), delta=1, hidden=8.0)
    calibrator.check_settings()
    assert [type(value) for value in (calibrator.sigma, calibrator.epochs, calibrator.delta, calibrator.hidden)] == [
        float, int, float, int,
    ]  # fmt: skip
    calibrator.sigma = np.float32(0.25)
    calibrator.check_settings()
    assert type(calibrator.sigma) is float
    for wrong in ({"epochs": 2.5}, {"epochs": np.nan}, {"epochs": np.inf}, {"sigma": "0.1"}, {"sigma": np.nan},
                  {"hidden": True}, {"sigma": np.array([0.1])}, {"sigma": 10**400}):  # fmt: skip
        with pytest.raises(CalibrationError, match=next(iter(wrong))):
            get("smart", **wrong).check_settings()


@pytest.mark.parametrize("id", ALL)
def test_wrong_use_is_one_sentence(id: str, problem: Problem):
    arguments = problem.fit_arguments()
    with pytest.raises(CalibrationError, match="labels"):
        get(id).fit(problem.logits, problem.labels[:-1], **arguments)
    with pytest.raises(CalibrationError, match="labels must lie in"):
        get(id).fit(problem.logits, problem.labels + 6, **arguments)
    with pytest.raises(CalibrationError, match="not fitted"):
        get(id).predict_proba(problem.logits)
    spoiled = problem.logits.copy()
    spoiled[3, 1] = np.nan
    with pytest.raises(CalibrationError, match="NaN"):
        get(id).fit(spoiled, problem.labels, **arguments)
    with pytest.raises(CalibrationError, match="classes"):
        fitted(id, problem).predict_proba(problem.logits[:, :4], features=problem.features)
    with pytest.raises(CalibrationError, match="whole numbers"):
        get(id).fit(problem.logits, [[1], [1, 2]], **arguments)
    for head in ("head", problem.head[0], 3):
        with pytest.raises(CalibrationError, match="the head must be a pair"):
            get(id).fit(problem.logits, problem.labels, features=problem.features, head=head)


def test_complex_and_masked_arrays_are_refused(problem: Problem):
    imaginary = torch.from_numpy(problem.logits) + 1j
    masked = np.ma.array(problem.logits, mask=problem.logits > 3.0)
    for logits, words in ((imaginary, "real numbers"), (masked, "masked entries")):
        with pytest.raises(CalibrationError, match=words):
            get("ts").fit(logits, problem.labels)
        with pytest.raises(CalibrationError, match=words):
            fitted("ts", problem).predict_proba(logits)
    for labels in (
        torch.from_numpy(problem.labels) + 1j,
        np.ma.array(problem.labels, mask=problem.labels == 1),
    ):
        with pytest.raises(CalibrationError, match="whole numbers"):
            get("ts").fit(problem.logits, labels)
    whole = np.ma.array(problem.logits)  # nothing is under its mask
    np.testing.assert_array_equal(
        fitted("ts", problem).predict_proba(whole), fitted("ts", problem).predict_proba(problem.logits)
    )


@pytest.mark.parametrize("device", ["abacus", "meta", "xla", "cuda:99", None, 3.5])
def test_a_device_that_is_not_there_is_one_sentence(device: object, problem: Problem):
    with pytest.raises(CalibrationError, match="device"):
        get("ts", device=device).fit(problem.logits, problem.labels)


def test_a_device_may_be_given_as_pytorchs_own(problem: Problem, tmp_path):
    calibrator = get("ts", device=torch.device("cpu")).fit(problem.logits, problem.labels)
    calibrator.save(tmp_path / "ts.safetensors")
    assert load_calibrator(tmp_path / "ts.safetensors").temperature_ == calibrator.temperature_
    assert calibrator.settings_dict()["device"] == "cpu"


@pytest.mark.parametrize("id", ALL)
def test_a_fit_cancelled_at_its_last_check_is_not_fitted(id: str, problem: Problem):
    def at_the_end(fraction: float, words: str) -> None:
        if fraction == 1.0:
            raise Cancelled("enough")

    calibrator = get(id, **QUICK.get(id, {}))
    with pytest.raises(Cancelled):
        calibrator.fit(problem.logits, problem.labels, **problem.fit_arguments(), progress=at_the_end)
    with pytest.raises(CalibrationError, match="not fitted"):
        calibrator.predict_proba(problem.logits, features=problem.features)


@pytest.mark.parametrize("id", ALL)
def test_settings_describe_themselves(id: str):
    default = get(id)
    for described in default.settings():
        assert described.help.endswith(".")
        assert getattr(default, described.name) == described.default
        described.check(described.default, default.label)
    with pytest.raises(CalibrationError, match="no setting"):
        get(id, wrong=1)


def test_a_damaged_file_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "broken.safetensors"
    for content in (b"", b"\xff" * 40, b"{}"):
        path.write_bytes(content)
        with pytest.raises(CalibratorFileError, match="not a calibrator file"):
            load_calibrator(path)
    with pytest.raises(CalibratorFileError, match="cannot be read"):
        load_calibrator(tmp_path / "absent.safetensors")
