"""Compiled training, of batched networks and of networks one after the other, against training without a compiler."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from eigen_reptile.cli import run as run_command
from eigen_reptile.nn import Conv4, Model
from eigen_reptile.training.experiment import run
from patterns import SMALL

pytestmark = [
    pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="compiling needs a C++ compiler"),
    pytest.mark.xdist_group("compiled"),  # so that the compiler is started once
    pytest.mark.timeout(600),
]


@final
@dataclass(frozen=True)
class TwoBlocks(Model):
    """The first two blocks of Conv4 and a linear layer, which compile in half the time."""

    @property
    def batched(self) -> bool:
        return False

    @property
    def compile_from(self) -> int | None:
        return None

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        blocks = list(Conv4(filters=4, head=False).build(shape, outputs).children())[:2]
        left = [-(-side // 4) for side in shape[1:]]
        return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(4 * left[0] * left[1], outputs))


# One replica, because the code grows with their number.
IMAGES = replace(
    SMALL, model=TwoBlocks(), precision="float64", meta=replace(SMALL.meta, steps=8), seeds=(0,), compile="off"
)
SINE = (
    *("train", "eigen-reptile", "sine", "--quiet", "--meta.steps", "20", "--inner.steps", "2", "--model.hidden", "8"),
    *("--seeds", "0", "1", "--evaluation.tasks", "2", "--evaluation.monitor-tasks", "2"),
)

COMPILED = """
import shutil
from dataclasses import replace
from pathlib import Path

from eigen_reptile import run
from eigen_reptile.cli import run as run_command
from eigen_reptile.runtime.progress import no_progress
from test_compiled import IMAGES, SINE

def report(done, metrics):
    if done == 4:  # as a process would leave the folder that is killed now
        shutil.copytree("whole", "resumed")

assert run_command([*SINE, "--compile", "on", "--out", "sine"]) == 0
exp = replace(IMAGES, compile="on")
run(exp, Path("whole"), lambda name, total: report if name == "whole" else no_progress(name, total), checkpoint_every=4)
run(exp, Path("resumed"))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of the program above.

    In a separate process without the type checks of the tests, which cannot be compiled; by a single thread, because
    starting more takes longer than compiling this little; and not optimised by the C++ compiler, for the same reason.
    """
    folder = tmp_path_factory.mktemp("compiled")
    paths = [str(Path(__file__).parents[1]), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    once = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_DEBUG_COMPILE": "1"}
    environment = os.environ | once | {"PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-c", COMPILED], env=environment, cwd=folder, check=True)
    return folder


def final_theta(folder: Path) -> Tensor:
    return load_file(max(folder.glob("checkpoints/*.safetensors")))["theta"]


def test_compiled_training_of_batched_networks_agrees_with_plain(compiled: Path, tmp_path: Path) -> None:
    assert run_command([*SINE, "--compile", "off", "--out", str(tmp_path)]) == 0
    torch.testing.assert_close(final_theta(compiled / "sine"), final_theta(tmp_path), rtol=1e-3, atol=1e-5)


def test_compiled_training_on_images_agrees_with_plain_and_resumes_bit_for_bit(compiled: Path, tmp_path: Path) -> None:
    run(IMAGES, tmp_path)
    whole, plain = final_theta(compiled / "whole"), final_theta(tmp_path)
    assert torch.equal(whole, final_theta(compiled / "resumed"))
    assert not torch.equal(whole, plain)  # or nothing was compiled
    torch.testing.assert_close(whole, plain, rtol=1e-6, atol=1e-8)
