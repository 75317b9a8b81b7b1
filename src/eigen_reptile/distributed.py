"""The few lines that know about ranks: who does which tasks, and how their findings come together.

Every worker holds the same state and draws the same tasks; it works on its share of them, and what the shares give is
summed up. So all workers go the same way, and the first, the lead, is the only one that writes.
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

from eigen_reptile.files import RunError

RESTARTS = 3
"""How often workers are started again, from the last checkpoint, after one of them has died."""


@final
@dataclass(frozen=True)
class Workers:
    """This process among those that share the work."""

    rank: int = 0
    count: int = 1

    @property
    def lead(self) -> bool:
        """Whether this is the worker that writes and tells."""
        return self.rank == 0

    def share(self, total: int) -> range:
        """Which of so many things this worker does."""
        return range(self.rank, total, self.count)

    def summed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Each tensor summed over all workers, the same on all of them."""
        if self.count == 1:
            return list(tensors)
        found: dict[int, Tensor] = {}
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            alike = {place: tensor for place, tensor in enumerate(tensors) if tensor.dtype == dtype}
            flat = torch.cat([tensor.reshape(-1) for tensor in alike.values()])  # one message instead of many
            dist.all_reduce(flat)
            parts = flat.split([tensor.numel() for tensor in alike.values()])
            found |= {place: part.view(alike[place].shape) for place, part in zip(alike, parts, strict=True)}
        return [found[place] for place in range(len(tensors))]

    def as_lead(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors that the lead has, of the same form on all workers."""
        if self.count == 1:
            return list(tensors)
        copies = [tensor.clone().contiguous() for tensor in tensors]
        for copy in copies:
            dist.broadcast(copy, 0)
        return copies

    def told(self, words: str, device: torch.device) -> str:
        """What the lead says."""
        if self.count == 1:
            return words
        said = torch.tensor(list(words.encode()), dtype=torch.uint8, device=device)
        (length,) = self.as_lead([torch.tensor(said.numel(), device=device)])
        (heard,) = self.as_lead([said if self.lead else said.new_empty(int(length))])
        return bytes(heard.tolist()).decode()


ALONE = Workers()


def launched() -> bool:
    """Whether this process was started as one of several workers, by torchrun or by `launch`."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def restarted() -> bool:
    """Whether these workers were started again because one has died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextmanager
def joined(timeout: float, gpu: bool) -> Iterator[Workers]:
    """Join the workers that were started together with this process; alone if it was started by itself.

    A worker that does not answer for `timeout` seconds is an error on all others.
    """
    if not launched():
        yield ALONE
        return
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    limit = timedelta(seconds=timeout)
    store, rank, count = next(rendezvous("env://", timeout=limit))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # This store outlives the workers. Those before a restart have left addresses in it that no one answers at.
        store = PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
    dist.init_process_group("nccl" if gpu else "gloo", store=store, rank=rank, world_size=count, timeout=limit)
    try:
        yield Workers(rank, count)
    finally:
        dist.destroy_process_group()


def launch(work: Callable[..., None], args: Sequence[Any], workers: int) -> None:
    """Run `work(*args)` in so many processes at once; start them all again if one dies. RunError if it dies again."""
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
        logging.getLogger(name).setLevel(logging.CRITICAL)  # pages about each death; the workers say it in a line
    try:
        elastic_launch(config, work)(*args)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        raise RunError(f"worker {rank} failed once too often: {failure.message}") from error
