"""Data parallelism over the tasks of a meta-batch: the only module that knows about ranks.

Every worker has the same state and draws the same tasks. It computes its own part of them, and the results are summed
over all workers, so that their states stay equal. Only the worker with rank 0, the lead, writes files and prints.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.interruption import Interrupted
from eigen_reptile.runtime.jobs import FAILURES

PROBLEM, INTERRUPTION = "problem", "interruption"
"""Keys under which a worker leaves the reason for which it has stopped."""


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
            with _signals_first():
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
            with _signals_first():
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


def is_lead() -> bool:
    """Whether this process is the lead, or alone."""
    return not is_worker() or int(os.environ["RANK"]) == 0


def is_restarted() -> bool:
    """Whether the workers were restarted because one of them had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@final
class WorkerGroup:
    """The workers that were started together with this process, if there are any."""

    def __init__(self, timeout: float, gpu: bool) -> None:
        """If a worker does not respond for `timeout` seconds, all others fail."""
        self._timeout = timedelta(seconds=timeout)
        self._backend = "nccl" if gpu else "gloo"
        self._store: Store | None = None
        self._workers = ALONE
        if is_worker():
            if gpu:
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            self._store, rank, count = next(rendezvous("env://", timeout=self._timeout))
            if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
                # This store outlives the workers: it still has the addresses of those that ran before a restart.
                self._store = PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], self._store)
            self._workers = Workers(rank, count)

    @contextmanager
    def connected(self, job: str) -> Iterator[Workers]:
        """Connect to the other workers for a job; its name is the same for all.

        What stops one of them for a known reason is raised by all; otherwise the others would count as dead too.
        """
        if self._store is None:
            yield ALONE
            return
        store, (rank, count) = PrefixStore(job, self._store), (self._workers.rank, self._workers.count)
        dist.init_process_group(self._backend, store=store, rank=rank, world_size=count, timeout=self._timeout)
        try:
            yield self._workers
        except FAILURES as error:
            store.set(PROBLEM, str(error))
            raise
        except KeyboardInterrupt:
            store.set(INTERRUPTION, INTERRUPTION)
            raise
        except RuntimeError as error:  # as when the connection to another worker is lost
            raise _reason_of_another(store) or error from error
        finally:
            dist.destroy_process_group()


def _reason_of_another(store: Store) -> BaseException | None:
    """Why another worker has stopped, if it has said so."""
    try:
        if store.check([INTERRUPTION]):
            return Interrupted()
        return RunError(store.get(PROBLEM).decode()) if store.check([PROBLEM]) else None
    except RuntimeError:
        return RunError("the lead, which keeps the workers' common store, has ended")


@contextmanager
def _signals_first() -> Iterator[None]:
    """If a collective operation fails after a signal has arrived, handle the signal, as if there were no failure."""
    try:
        yield
    except RuntimeError:
        signal.sigpending()  # any call lets Python handle the signals that have arrived
        raise
