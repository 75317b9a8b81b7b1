"""Contradictory noise settings are rejected, and the message names the field."""

from pathlib import Path

import pytest

from eigen_reptile.errors import ConfigError
from eigen_reptile.noise import NoiseConfig

FILE = Path("noise.csv")


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_rate_must_be_a_probability(rate: float) -> None:
    with pytest.raises(ConfigError, match=r"`noise\.rate` must be a probability from 0 to 1"):
        NoiseConfig("symmetric", rate)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seed_must_fit_a_generator(seed: int) -> None:
    with pytest.raises(ConfigError, match=rf"`noise\.seed` must be an integer from 0 to 2\*\*63 - 1, not {seed}"):
        NoiseConfig(seed=seed)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_rules_need_a_rate_and_no_file(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"set `noise\.rate`"):
        NoiseConfig(kind)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"does not use `noise\.file`"):
        NoiseConfig(kind, 0.5, file=FILE)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["matrix", "labels"])
def test_files_must_be_named(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"set `noise\.file`"):
        NoiseConfig(kind, where="bank")  # type: ignore[arg-type]


def test_given_labels_need_the_bank() -> None:
    with pytest.raises(ConfigError, match=r"`noise\.where` to be bank, not task"):
        NoiseConfig("labels", where="task", file=FILE)


@pytest.mark.parametrize("noise", [{"rate": 0.5}, {"file": FILE}])
def test_settings_without_a_kind_are_rejected(noise: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"set `noise\.kind`"):
        NoiseConfig(**noise)  # type: ignore[arg-type]


def test_files_are_always_applied_unless_a_rate_is_set() -> None:
    assert NoiseConfig("matrix", file=FILE).apply_probability == 1
    assert NoiseConfig("matrix", 0.0, file=FILE).apply_probability == 0
    assert NoiseConfig("symmetric", 0.3).apply_probability == 0.3
