"""A short run of the fuzzer with fixed seeds, and noise from Hypothesis; `make fuzz` runs longer."""

import random
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.amqp import fuzz_codec
from tests.amqp.fuzz_codec import TARGETS, check, corpus, make_input, run

ITERATIONS = 3000


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_inputs_raise_only_what_is_allowed(seed: int) -> None:
    assert run(seed, ITERATIONS, None) == ITERATIONS


@pytest.mark.parametrize("target", TARGETS)
@given(st.binary(max_size=200))
@example(b"")
def test_noise_raises_only_what_is_allowed(target: Callable[[bytes], None], data: bytes) -> None:
    check(target, data)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_takes_some_input(target: Callable[[bytes], None]) -> None:
    assert any(check(target, data) for data in corpus())


def test_a_run_is_repeated_by_its_seed() -> None:
    inputs = corpus()
    assert [make_input(random.Random(5), inputs) for _ in range(9)] == [
        make_input(random.Random(5), inputs) for _ in range(9)
    ]


def test_a_finding_ends_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def planted(data: bytes) -> None:
        if 0xFF in data:
            raise IndexError("planted")

    monkeypatch.setattr(fuzz_codec, "TARGETS", [planted])
    with pytest.raises(IndexError, match="planted"):
        run(3, ITERATIONS, None)
    assert "finding: seed 3, iteration" in capsys.readouterr().out
