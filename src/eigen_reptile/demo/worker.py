"""Worker processes that compute one task at a time, with a bounded queue and a time limit.

A worker that takes too long, or dies, is replaced; only the task that it was given is lost.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import final

from pydantic import TypeAdapter, ValidationError

from eigen_reptile.demo.replies import Failed, Message, Progress

START_SECONDS = 180.0
"""Time that a process may take to import what it needs; no task is charged with it."""
LARGEST_LINE = 1 << 24
"""Bytes of an answer; a model file or an ONNX file is the largest."""
TOO_LONG = Failed(reason="that took too long, so it was stopped: try it with fewer examples")
DIED = Failed(reason="the computation has stopped: please try it again")
MESSAGES: TypeAdapter[Message] = TypeAdapter(Message)


class BusyError(Exception):
    """The queue is full."""


@final
@dataclass(frozen=True)
class Job:
    """A task in the queue, and what was said about it so far."""

    task: bytes
    messages: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    async def follow(self) -> AsyncIterator[Message]:
        """Everything the worker says, the answer last."""
        while True:
            message = await self.messages.get()
            yield message
            if not isinstance(message, Progress):
                return

    async def answer(self) -> Message:
        async for message in self.follow():
            answer = message
        return answer


@final
class Worker:
    """A process, and the queue in front of it. It is started for its first task, or by `warm_up`."""

    def __init__(self, waiting: int, seconds: float) -> None:
        self._jobs: asyncio.Queue[Job] = asyncio.Queue(waiting)
        self._seconds = seconds
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    def submit(self, task: bytes) -> Job:
        """Queue a task, one line of JSON; BusyError if too many are waiting."""
        job = Job(task)
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull as error:
            raise BusyError from error
        return job

    async def run(self) -> None:
        """Compute what is submitted, until cancelled."""
        try:
            while True:
                await self._compute(await self._jobs.get())
        finally:
            await self._stop()

    async def warm_up(self) -> None:
        """Start the process, so that the first task need not wait for it."""
        with contextlib.suppress(TimeoutError, ValidationError, ValueError):  # which the first task will find out
            await self._started()

    async def _compute(self, job: Job) -> None:
        try:
            process = await self._started()
            assert process.stdin is not None
            async with asyncio.timeout(self._seconds):
                process.stdin.write(job.task + b"\n")
                await process.stdin.drain()
                message: Message = Progress(done=0.0)
                while isinstance(message, Progress):
                    message = await _heard(process)
                    job.messages.put_nowait(message)
        except TimeoutError:
            await self._stop()
            job.messages.put_nowait(TOO_LONG)
        except (ValidationError, ValueError, ConnectionError):  # an empty or overlong line
            await self._stop()
            job.messages.put_nowait(DIED)

    async def _started(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is None:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "eigen_reptile.demo.compute",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=LARGEST_LINE,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    start_new_session=True,  # Ctrl-C is for the server, which then ends its workers
                )
                async with asyncio.timeout(START_SECONDS):
                    await _heard(self._process)  # that it is ready
            return self._process

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _heard(process: asyncio.subprocess.Process) -> Message:
    """The next message; ValidationError if the process has ended, ValueError if it says too much."""
    assert process.stdout is not None
    return MESSAGES.validate_json(await process.stdout.readline())
