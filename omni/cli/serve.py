"""`omni serve`: an HTTP server for one model."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from omni.cli.flags import EngineFlags
from omni.config.attention import AttentionConfig
from omni.errors import InputError
from omni.models.discovery import discover, is_hub_id

if TYPE_CHECKING:
    from omni import Omni

_log = logging.getLogger(__name__)
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def serve(
    model: Annotated[str, Parameter(help="a diffusers folder, or a model id on the hub")],
    /,
    *,
    host: Annotated[
        str,
        Parameter(
            help="address to listen on; 0.0.0.0 opens the server to the network, with no authentication"
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        Parameter(
            help="port to listen on; 0 takes any free one", validator=validators.Number(gte=0, lte=65535)
        ),
    ] = 8000,
    served_model_name: Annotated[
        str | None, Parameter(help="name that clients use; default: the model as given")
    ] = None,
    engine: EngineFlags = EngineFlags(),  # noqa: B008  # frozen
) -> None:
    """Serve a model over the OpenAI API until SIGTERM or Ctrl-C.

    The address is printed at once; GET /health answers 503 while the model loads and 200 when it is ready.
    """
    attention = engine.check()
    name = _name(served_model_name, model)
    if not is_hub_id(model):
        # A folder costs nothing to judge; a hub id may have to be downloaded, which the open port can report.
        discover(model)
    from omni.serving.sockets import listen

    listener = listen(host, port)
    _log_to_stderr()
    from omni.serving.server import run
    from omni.serving.slot import EngineSlot

    run(listener, EngineSlot(name), lambda: _loaded(engine, model, attention))


def _name(given: str | None, model: str) -> str:
    """Return the name clients use; it goes into JSON, URLs and logs, so what cannot be printed is refused."""
    name = model if given is None else given
    if name.strip() and name.isprintable():
        return name
    whose = (
        "--served-model-name"
        if given is not None
        else "the model's name; give it another with --served-model-name"
    )
    raise InputError(f"{name!r} cannot be {whose}: it is empty or has characters that cannot be printed")


def _loaded(engine: EngineFlags, model: str, attention: AttentionConfig) -> Omni:
    loaded = engine.build(model, attention)
    _log.info("device %s; %s", loaded.device, loaded.report)
    return loaded


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, format=_FORMAT, level=logging.WARNING)
    logging.getLogger("omni").setLevel(logging.INFO)
