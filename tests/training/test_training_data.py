"""The training data of each outer iteration."""

from dataclasses import replace

import pytest
import torch

from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.runtime.distributed import Workers
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.setup import set_up
from patterns import SMALL as IMAGES

SMALL = Experiment(meta=MetaConfig(steps=12, lr=(0.5,)), compile="off")


def test_every_method_and_step_size_sees_the_same_tasks_and_batches() -> None:
    one = replace(SMALL, method=METHODS["reptile"], seeds=(4,))
    many = replace(SMALL, method=METHODS["eigen-reptile"], meta=replace(SMALL.meta, lr=(0.1, 0.2)), seeds=(3, 4))
    few, many_replicas = (TrainingData(set_up(exp, no_progress, "cpu")).at(7) for exp in (one, many))
    for part, whole in zip((*few[0], *few[1]), (*many_replicas[0], *many_replicas[1]), strict=True):
        assert torch.equal(part[0], whole[1])
        assert torch.equal(part[0], whole[3])
    assert not torch.equal(many_replicas[0].y[0], many_replicas[0].y[1])
    assert not torch.equal(many_replicas[1].chosen[0], many_replicas[1].chosen[1])


@pytest.mark.parametrize("lr", [(0.1,), (0.1, 0.2)])
def test_data_drawn_ahead_equal_those_of_each_step_drawn_by_itself(
    lr: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigen_reptile.training.data.AHEAD_BYTES", 50_000)
    setup = set_up(replace(SMALL, meta=replace(SMALL.meta, lr=lr), seeds=(3, 4)), no_progress, "cpu")
    data, single = TrainingData(setup).after(7), TrainingData(setup)
    for step in range(7, 7 + 20):
        for ahead, own in zip(next(data), single.at(step), strict=True):
            for found, expected in zip(ahead, own, strict=True):
                assert torch.equal(found, expected)


def test_the_next_iterations_do_not_change_the_data_of_this_one() -> None:
    data = TrainingData(set_up(SMALL, no_progress, "cpu"))
    now = data.at(3)
    before = [part.clone() for parts in now for part in parts]
    later = data.at(4)
    assert all(torch.equal(part, old) for part, old in zip((*now[0], *now[1]), before, strict=True))
    assert not torch.equal(later[0].y, now[0].y)


@pytest.mark.parametrize("noise", [NoiseConfig(), NoiseConfig("symmetric", 0.5, where="draw")], ids=["clean", "noisy"])
def test_workers_share_the_tasks_of_one_worker(noise: NoiseConfig) -> None:
    exp = replace(IMAGES, noise=noise, meta=replace(IMAGES.meta, batch=5, lr=(0.5, 1.0)))
    whole = TrainingData(set_up(exp, no_progress, "cpu")).at(3)
    shares = [TrainingData(set_up(exp, no_progress, "cpu", Workers(rank, 2))).at(3) for rank in range(2)]
    assert [share[0].x.shape[1] for share in shares] == [3, 2]
    for rank, share in enumerate(shares):
        for parts, own in zip(whole, share, strict=True):
            assert all(torch.equal(part[:, rank::2], mine) for part, mine in zip(parts, own, strict=True))


def test_a_batch_of_none_is_the_whole_support() -> None:
    exp = replace(IMAGES, inner=replace(IMAGES.inner, batch=None))
    tasks, batches = TrainingData(set_up(exp, no_progress, "cpu")).at(0)
    assert batches.chosen.shape == (2, 2, 2, 9)
    assert (batches.chosen.sort(-1).values == torch.arange(9)).all()
    assert tasks.x.shape[2] == 9


def test_an_epoch_contains_every_image_once() -> None:
    """A batch stands for a task of 6 samples and an iteration has 2 of them, so 6 iterations are 72 = 8 x 9 images."""
    exp = replace(
        IMAGES,
        method=METHODS["mixtfsl"],
        model=Conv4(4, head=False),
        task=TaskConfig(way=3, shots=1, queries=1, epochs=True),
        inner=InnerConfig(steps=1, batch=None),
    )
    data = TrainingData(set_up(exp, no_progress, "cpu"))
    images = torch.cat([data.at(step)[0].x[0].flatten(0, 1) for step in range(6)])
    assert len({image.numpy().tobytes() for image in images}) == len(images) == 72


def test_labels_of_draws_are_corrupted_at_the_given_rate() -> None:
    exp = replace(IMAGES, noise=NoiseConfig("symmetric", 0.5, where="draw"), meta=replace(IMAGES.meta, batch=200))
    tasks, batches = TrainingData(set_up(exp, no_progress, "cpu")).at(0)
    clean, _ = TrainingData(set_up(replace(exp, noise=NoiseConfig()), no_progress, "cpu")).at(0)
    assert torch.equal(tasks.x, clean.x)
    true = torch.gather(clean.y, 2, batches.chosen.flatten(2)).view_as(batches.chosen)
    assert torch.equal(batches.is_clean, batches.y == true)
    assert float(batches.is_clean.double().mean()) == pytest.approx(0.5, abs=0.03)
