"""What a configuration rejects, and how it names the field; the replicas and the decay of the step size."""

import re
from collections.abc import Callable

import pytest

from eigen_reptile.data import CifarFs, Sine
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import (
    METHODS,
    Ecm,
    EntropyReduction,
    Gnn,
    Ispl,
    LossInequality,
    Maml,
    MetaDropout,
    Metal,
    MixtFsl,
    Reptile,
    RobustLoss,
    SelfPaced,
    WarpedSteps,
)
from eigen_reptile.nn import Conv4, Mlp
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig

INF, NAN = float("inf"), float("nan")

WRONG: list[tuple[Callable[[], object], str, str]] = [
    (lambda: MetaConfig(steps=0), "meta.steps", "at least 1, not 0"),
    (lambda: MetaConfig(batch=0), "meta.batch", "at least 1, not 0"),
    (lambda: MetaConfig(lr=()), "meta.lr", "not ()"),
    (lambda: MetaConfig(lr=(0.1, 0.0)), "meta.lr", "finite step sizes above 0, not (0.1, 0.0)"),
    (lambda: MetaConfig(lr=(0.1, 0.1)), "meta.lr", "twice: (0.1, 0.1)"),
    (lambda: MetaConfig(lr=(NAN,)), "meta.lr", "finite step sizes above 0, not (nan,)"),
    (lambda: MetaConfig(final_lr=INF), "meta.final_lr", "finite and at least 0, not inf"),
    (lambda: MetaConfig(final_lr=-1.0), "meta.final_lr", "not -1.0"),
    (lambda: MetaConfig(patience=-1), "meta.patience", "at least 0, not -1"),
    (lambda: MetaConfig(clip=0.0), "meta.clip", "above 0, not 0.0"),
    (lambda: MetaConfig(clip=NAN), "meta.clip", "above 0, not nan"),
    (lambda: InnerConfig(steps=-3), "inner.steps", "at least 1, not -3"),
    (lambda: InnerConfig(batch=0), "inner.batch", "at least 1, or None for the whole support, not 0"),
    (lambda: InnerConfig(lr=INF), "inner.lr", "finite and above 0, not inf"),
    (lambda: InnerConfig(lr=0.0), "inner.lr", "not 0.0"),
    (lambda: InnerConfig(eps=0.0), "inner.eps", "not 0.0"),
    (lambda: InnerConfig(beta2=1.0), "inner.beta2", "at least 0 and below 1, not 1.0"),
    (lambda: TaskConfig(way=0), "task.way", "at least 1, not 0"),
    (lambda: TaskConfig(shots=0), "task.shots", "at least 1, not 0"),
    (lambda: TaskConfig(queries=-1), "task.queries", "at least 0, not -1"),
    (lambda: EvalConfig(tasks=0), "evaluation.tasks", "at least 1, not 0"),
    (lambda: EvalConfig(monitor_tasks=0), "evaluation.monitor_tasks", "at least 1, not 0"),
    (lambda: EvalConfig(every=0), "evaluation.every", "at least 1, not 0"),
    (lambda: EvalConfig(queries=0), "evaluation.queries", "at least 1, not 0"),
    (lambda: EvalConfig(batch=0), "evaluation.batch", "at least 1, not 0"),
    (lambda: EvalConfig(way=1), "evaluation.way", "at least 2, not 1"),
    (lambda: EvalConfig(shots=()), "evaluation.shots", "not ()"),
    (lambda: EvalConfig(shots=(1, 0)), "evaluation.shots", "not (1, 0)"),
    (lambda: EvalConfig(shots=(5, 5)), "evaluation.shots", "different numbers of at least 1, not (5, 5)"),
    (lambda: EvalConfig(inner_steps=(8, 0)), "evaluation.inner_steps", "not (8, 0)"),
    (lambda: EvalConfig(inner_steps=()), "evaluation.inner_steps", "not ()"),
    (lambda: EvalConfig(seed=-1), "evaluation.seed", "not -1"),
    (lambda: EvalConfig(snapshot_steps=(-1,)), "evaluation.snapshot_steps", "not (-1,)"),
    (lambda: Experiment(seeds=(2**64,)), "seeds", f"not ({2**64},)"),
    (lambda: Experiment(seeds=()), "seeds", "not ()"),
    (lambda: Experiment(seeds=(1, 1)), "seeds", "twice: (1, 1)"),
    (lambda: Experiment(data=CifarFs()), "task.way", "at least 2 for classification, not 1"),
    (lambda: Experiment(Maml(), inner=InnerConfig(optimizer="adam")), "inner.carry", "to fresh"),
    (lambda: Experiment(METHODS["maml-ispl"], inner=InnerConfig(batch=None)), "inner.batch", "not None"),
    (lambda: Experiment(Maml(), CifarFs(), task=TaskConfig(5)), "task.queries", "learns from queries"),
    (lambda: Experiment(task=TaskConfig(epochs=True)), "task.epochs", "not from the whole training set"),
    (lambda: Experiment(evaluation=EvalConfig(way=3)), "evaluation.way", "the way of training, 1"),
    (
        lambda: Experiment(Gnn(), CifarFs(), task=TaskConfig(5, queries=1), evaluation=EvalConfig(way=3)),
        "evaluation.way",
        "the way of training, 5",
    ),
    (lambda: Experiment(evaluation=EvalConfig(noisy=True)), "evaluation.noisy", "symmetric"),
    (lambda: EvalConfig(support_rate=0.2), "evaluation.support_rate", "set `evaluation.support_noise` to symmetric"),
    (lambda: EvalConfig(support_noise="paired", support_rate=0.7), "evaluation.support_rate", "from 0 to 0.6, not 0.7"),
    (lambda: EvalConfig(support_noise="paired", support_rate=NAN), "evaluation.support_rate", "not nan"),
    (lambda: EvalConfig(support_noise="paired", noisy=True), "evaluation.support_noise", "use one"),
    (lambda: Experiment(evaluation=EvalConfig(support_noise="paired")), "evaluation.support_noise", "needs classes"),
    (
        lambda: Experiment(
            data=CifarFs(),
            task=TaskConfig(5),
            evaluation=EvalConfig(shots=(5, 1), support_noise="symmetric", support_rate=0.2),
        ),
        "evaluation.support_rate",
        "0.2 is less than one wrong label per class with 1 per class",
    ),
    (
        lambda: Experiment(data=CifarFs(), task=TaskConfig(5, 2), noise=NoiseConfig("mixed")),
        "task.shots",
        "is 2, use 5",
    ),
    (
        lambda: Experiment(
            data=CifarFs(), task=TaskConfig(5), noise=NoiseConfig("mixed"), evaluation=EvalConfig(noisy=True)
        ),
        "evaluation.noisy",
        "set `evaluation.noisy` to False",
    ),
    (lambda: Conv4(filters=0), "model.filters", "at least 1, not 0"),
    (lambda: Mlp(hidden=(0,)), "model.hidden", "at least 1, not (0,)"),
    (lambda: Ecm(steps=-1), "method.steps", "at least 0, not -1"),
    (lambda: Ecm(rate=NAN), "method.rate", "finite and above 0, not nan"),
    (lambda: Gnn(width=0), "method.width", "not 0"),
    (lambda: MixtFsl(components=0), "method.components", "at least 1, not 0"),
    (lambda: MixtFsl(temperature=0.0), "method.temperature", "not 0.0"),
    (lambda: MixtFsl(margin=2.0), "method.margin", "not 2.0"),
    (lambda: Metal(copies=0), "method.copies", "at least 1, not 0"),
    (lambda: MetaDropout(samples=0), "method.samples", "at least 1, not 0"),
    (lambda: EntropyReduction(strength=-1.0), "method.objective.strength", "at least 0, not -1.0"),
    (lambda: LossInequality(strength=-1.0), "method.objective.strength", "at least 0, not -1.0"),
    (lambda: WarpedSteps(strength=-1.0), "method.objective.strength", "at least 0, not -1.0"),
    (lambda: Ispl(priors=0), "method.selector.priors", "not 0"),
    (lambda: Ispl(gamma=0.0), "method.selector.gamma", "above 0, not 0.0"),
    (lambda: Ispl(decay=INF), "method.selector.decay", "finite and at least 0, not inf"),
    (lambda: SelfPaced(start=0.0), "method.selector.start", "above 0, not 0.0"),
    (lambda: SelfPaced(growth=0.5), "method.selector.growth", "at least 1, not 0.5"),
    (lambda: SelfPaced(every=0), "method.selector.every", "at least 1, not 0"),
    (lambda: RobustLoss(Reptile(), q=2.0), "method.q", "at most 1, not 2.0"),
]


def identifier(case: object) -> str | None:
    return case if isinstance(case, str) else None


@pytest.mark.parametrize(("make", "field", "words"), WRONG, ids=identifier)
def test_a_wrong_value_is_rejected_with_the_name_of_its_field(
    make: Callable[[], object], field: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        make()
    message = str(caught.value)
    assert f"`{field}`" in message
    assert len(message.splitlines()) == 1
    assert "--" not in message  # flags are the command line's business


def test_a_classifier_is_rejected_on_curves() -> None:
    with pytest.raises(ConfigError, match="this method can only classify"):
        Experiment(METHODS["prototypical"])


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Sine(points=0), "points"),
        (lambda: Sine(low=1.0, high=0.0), "low"),
        (lambda: Sine(high=INF), "finite"),
        (lambda: NoiseConfig("symmetric", rate=1.5), "noise.rate"),
        (lambda: NoiseConfig(rate=0.5), "noise.kind"),
        (lambda: NoiseConfig("symmetric"), "noise.rate"),
        (lambda: NoiseConfig("symmetric", 0.1, seed=-1), "noise.seed"),
    ],
)
def test_wrong_data_and_noise_are_rejected_and_named(make: Callable[[], object], field: str) -> None:
    with pytest.raises(ValueError, match=re.escape(field)):
        make()


def test_the_outer_step_size_decays_linearly() -> None:
    meta = MetaConfig(steps=10, final_lr=0.5)
    assert [meta.lr_at(1.0, step) for step in (0, 5, 10)] == pytest.approx([1.0, 0.75, 0.5])
    # The original script's schedule.
    assert [MetaConfig(steps=4).lr_at(0.1, t) for t in range(4)] == pytest.approx([0.1 * (1 - t / 4) for t in range(4)])


def test_replicas_are_step_sizes_times_seeds() -> None:
    replicas = Experiment(meta=MetaConfig(lr=(0.1, 0.2)), seeds=(5, 7)).replicas
    assert [(replica.lr, replica.seed) for replica in replicas] == [(0.1, 5), (0.1, 7), (0.2, 5), (0.2, 7)]
