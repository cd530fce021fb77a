"""The routes. Everything they need is in the slot they are given, so tests build the same app."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from omni.serving import errors, images
from omni.serving.bodies import Arrivals
from omni.serving.schemas import ImageBody
from omni.serving.slot import EngineSlot, State


def create_app(slot: EngineSlot) -> FastAPI:
    """Return the API of the one model in *slot*; it answers while the model loads."""
    # No documentation pages: they would load scripts from a CDN. /openapi.json stays. A path with a slash too many
    # is an unknown path like any other: a redirect has no body that says so, and clients lose their POST by it.
    app = FastAPI(title="omni", docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.slot = slot
    app.state.arrivals = Arrivals()
    app.state.created = int(time.time())
    errors.install(app)
    for path, endpoint in _READABLE.items():
        app.add_api_route(path, endpoint, methods=["GET"])
        app.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)
    app.add_api_route(
        "/v1/images/generations",
        images.create,
        methods=["POST"],
        openapi_extra={
            "requestBody": {"content": {"application/json": {"schema": ImageBody.model_json_schema()}}}
        },
    )
    return app


async def _health(request: Request) -> JSONResponse:
    state = request.app.state.slot.state
    return JSONResponse({"status": state}, 200 if state is State.READY else 503)


async def _models(request: Request) -> dict[str, Any]:
    return {"object": "list", "data": [_served(request)]}


async def _model(request: Request, name: str) -> dict[str, Any]:
    served = _served(request)
    if name != served["id"]:
        raise errors.model_not_found(name, served["id"])
    return served


def _served(request: Request) -> dict[str, Any]:
    slot: EngineSlot = request.app.state.slot
    slot.engine  # noqa: B018  # answers 503 while there is no engine: clients poll this path for readiness
    return {"id": slot.name, "object": "model", "created": request.app.state.created, "owned_by": "omni"}


_READABLE: dict[str, Callable[..., Any]] = {
    "/health": _health,
    "/v1/models": _models,
    "/v1/models/{name:path}": _model,
}
