"""Reptile on sine waves with jax-meta's inner loop. Run by a Python that has jax-meta; it needs nothing else.

It reads numbers of iterations from standard input, one per line, and answers each with an empty line when they are
done.
"""

import sys
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from jax_meta.metalearners import MAML

STEPS, POINTS, INNER_LR, OUTER_LR = 5, 10, 0.02, 0.1


class Regression(MAML):  # type: ignore[misc]
    """jax-meta's network with the squared error in place of cross-entropy."""

    def loss(self, params: Any, state: Any, inputs: Any, targets: Any, args: Any) -> Any:
        outputs, state = self.model.apply(params, state, inputs)
        return jnp.mean((outputs - targets) ** 2), (state, {})


def main() -> None:
    tasks = int(sys.argv[1])
    network = hk.without_apply_rng(hk.transform_with_state(lambda x: hk.nets.MLP([64, 64, 1], activation=jnp.tanh)(x)))
    network = Regression(network, num_steps=STEPS, alpha=INNER_LR)
    params, state = network.meta_init(jax.random.PRNGKey(0), jnp.zeros((POINTS, 1)))

    @jax.jit  # type: ignore[untyped-decorator]
    def iteration(params: Any, x: Any, y: Any) -> Any:
        adapted, _ = jax.vmap(network.adapt, in_axes=(None, None, 0, 0, None))(params, state, x, y, ())
        return jax.tree_util.tree_map(
            lambda before, after: before + OUTER_LR * (after.mean(0) - before), params, adapted
        )

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(-5, 5, (tasks, POINTS, 1)), jnp.float32)
    y = jnp.asarray(rng.uniform(0.1, 5, (tasks, 1, 1)), jnp.float32) * jnp.sin(x)
    for line in sys.stdin:
        for _ in range(int(line)):
            params = iteration(params, x, y)
        jax.block_until_ready(params)
        sys.stdout.write("\n")
        sys.stdout.flush()


main()
