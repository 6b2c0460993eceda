"""The search for c against a plain one, image by image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smart_core.attacks.carlini_wagner import ConstantSearch, Search


def plain_search(works_from: float, search: Search) -> list[float]:
    """The values of c tried, for an image whose prediction changes from `works_from` on."""
    c, lower, upper, tried = search.initial_c, 0.0, None, []
    for step in range(search.search_steps):
        if step == search.search_steps - 1 and search.search_steps >= 10 and upper is not None:
            c = upper
        tried.append(c)
        if c >= works_from:
            upper = c
        else:
            lower = c
        c = c * 10 if upper is None else (lower + upper) / 2
    return tried


@given(st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=6), st.integers(1, 12))
def test_every_image_tries_the_constants_of_a_plain_search(works_from: list[float], steps: int):
    search = Search(search_steps=steps)
    state = ConstantSearch.of(np.arange(len(works_from)), search)
    tried = []
    for _ in range(steps):
        tried.append(state.c.copy())
        state.advance(np.ones(len(works_from), dtype=bool), state.c >= np.array(works_from), search)
    expected = [plain_search(threshold, search) for threshold in works_from]
    np.testing.assert_allclose(np.transpose(tried), expected, rtol=1e-12)
    assert (state.step == steps).all()


def test_only_ended_minimisations_move_on():
    search = Search(iterations=100)
    state = ConstantSearch.of(np.arange(3), search)
    state.age[:] = [10, 10, 25]
    ended = state.ended(np.array([1.0, 2.0, 2.0]), np.array([2.0, 2.0, 2.0]), search)
    np.testing.assert_array_equal(ended, [False, True, False])  # falling; stalled; stalled, but between two checks
    state.advance(ended, np.array([True, True, True]), search)
    np.testing.assert_allclose(state.c, [0.01, 0.005, 0.01])
    np.testing.assert_array_equal(state.age, [10, 0, 25])
    assert state.until_check(search) == 5


@pytest.mark.parametrize(("age", "lowest"), [(100, 0.0), (10, np.nan)])
def test_the_end_also_comes_with_the_last_iteration_and_with_nan(age: int, lowest: float):
    search = Search(iterations=100)
    state = ConstantSearch.of(np.arange(1), search)
    state.age[:] = age
    assert state.ended(np.array([lowest]), np.array([1.0]), search).all()


def test_iterations_that_no_tenth_divides_end_exactly():
    search = Search(iterations=37)
    state = ConstantSearch.of(np.arange(1), search)
    checks = []
    while state.age[0] < search.iterations:
        state.age += state.until_check(search)
        checks.append(int(state.age[0]))
    assert checks == [4, 8, 12, 16, 20, 24, 28, 32, 36, 37]
