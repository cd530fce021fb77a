"""The routes. Everything they need is in the slot they are given, so tests build the same app."""

from __future__ import annotations

import time
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from omni.serving import errors, images
from omni.serving.schemas import ImageBody
from omni.serving.slot import EngineSlot, State


def create_app(slot: EngineSlot) -> FastAPI:
    """Return the API of the one model in *slot*; it answers while the model loads."""
    # No documentation pages: they would load scripts from a CDN. /openapi.json stays.
    app = FastAPI(title="omni", docs_url=None, redoc_url=None)
    app.state.slot = slot
    app.state.created = int(time.time())
    errors.install(app)
    app.add_api_route("/health", _health, methods=["GET"])
    app.add_api_route("/v1/models", _models, methods=["GET"])
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
    slot: EngineSlot = request.app.state.slot
    slot.engine  # noqa: B018  # answers 503 while there is no engine: clients poll this path for readiness
    served = {"id": slot.name, "object": "model", "created": request.app.state.created, "owned_by": "omni"}
    return {"object": "list", "data": [served]}
