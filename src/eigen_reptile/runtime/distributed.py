"""Data parallelism over the tasks of a meta-batch: the only module that knows about ranks.

Every worker has the same state and draws the same tasks. It computes its own part of them, and the results are summed
over all workers, so that their states stay equal. Only the worker with rank 0, the lead, writes files and prints.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.rendezvous import rendezvous

from eigen_reptile.errors import RunError

RESTARTS = 3
"""How often all workers are restarted, from the last checkpoint, after one of them has died."""


@final
@dataclass(frozen=True)
class Workers:
    """The rank of this process, and the number of processes that share the work."""

    rank: int = 0
    count: int = 1

    @property
    def lead(self) -> bool:
        """Whether this is the worker that writes files and prints."""
        return self.rank == 0

    def own_indices(self, total: int) -> range:
        """The indices of the tasks, out of `total`, that this worker computes."""
        return range(self.rank, total, self.count)

    def all_reduce(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Each tensor summed over all workers; all of them get the sums."""
        if self.count == 1:
            return list(tensors)
        sums: dict[int, Tensor] = {}
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = {index: tensor for index, tensor in enumerate(tensors) if tensor.dtype == dtype}
            flat = torch.cat([tensor.reshape(-1) for tensor in same.values()])  # one message instead of many
            dist.all_reduce(flat)
            parts = flat.split([tensor.numel() for tensor in same.values()])
            sums |= {index: part.view(same[index].shape) for index, part in zip(same, parts, strict=True)}
        return [sums[index] for index in range(len(tensors))]

    def broadcast(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The lead's tensors, on all workers; dtypes and shapes must agree."""
        if self.count == 1:
            return list(tensors)
        copies = [tensor.clone().contiguous() for tensor in tensors]
        for copy in copies:
            dist.broadcast(copy, 0)
        return copies

    def broadcast_text(self, text: str, device: torch.device) -> str:
        """The lead's text, on all workers."""
        if self.count == 1:
            return text
        data = torch.tensor(list(text.encode()), dtype=torch.uint8, device=device)
        (length,) = self.broadcast([torch.tensor(data.numel(), device=device)])
        (received,) = self.broadcast([data if self.lead else data.new_empty(int(length))])
        return bytes(received.tolist()).decode()


ALONE = Workers()
"""A single process."""


def is_worker() -> bool:
    """Whether this process was started as one of several workers, by torchrun or by `launch_workers`."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_restarted() -> bool:
    """Whether the workers were restarted because one of them had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def join_workers(timeout: float, gpu: bool) -> Iterator[Workers]:
    """Connect to the workers that were started together with this process, if there are any.

    If a worker does not respond for `timeout` seconds, all others fail.
    """
    if not is_worker():
        yield ALONE
        return
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    limit = timedelta(seconds=timeout)
    store, rank, count = next(rendezvous("env://", timeout=limit))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # This store outlives the workers: it still has the addresses of those that were running before a restart.
        store = PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
    dist.init_process_group("nccl" if gpu else "gloo", store=store, rank=rank, world_size=count, timeout=limit)
    try:
        yield Workers(rank, count)
    finally:
        dist.destroy_process_group()


def launch_workers(work: Callable[..., None], args: Sequence[Any], workers: int) -> None:
    """Run `work(*args)` in this many processes at once. If one dies, restart them all, RESTARTS times at most."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=workers,
        run_id=f"eigen-reptile-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=RESTARTS,
        monitor_interval=0.2,
        start_method="spawn",
    )
    for name in ("torch.distributed.elastic", "torch.multiprocessing"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they log pages about each death; we log one line
    try:
        elastic_launch(config, work)(*args)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        raise RunError(f"worker {rank} failed after {RESTARTS} restarts: {failure.message}") from error
