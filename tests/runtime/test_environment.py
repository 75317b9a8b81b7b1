"""The environment that is recorded with a result."""

from eigen_reptile.runtime.environment import recorded_command


def test_the_recorded_command_contains_no_folder_of_the_machine() -> None:
    words = ["/home/ann/bin/eigen-reptile", "run", "noisy", "--out", "/data/runs/noisy", "--data=/data/images", "a/b"]
    assert recorded_command(words) == "eigen-reptile run noisy --out noisy --data=images a/b"
    assert recorded_command(["/lib/eigen_reptile/__main__.py", "list"]) == "python -m eigen_reptile list"
