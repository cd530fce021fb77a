from __future__ import annotations

import asyncio
import base64
import io
import json
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops

from omni.serving import bodies
from omni.serving.bodies import BODY_LIMIT
from omni.serving.schemas import ImageBody

GENERATIONS = "/v1/images/generations"
JSON = {"content-type": "application/json"}


def pictures(response):
    assert response.status_code == 200, response.text
    return [Image.open(io.BytesIO(base64.b64decode(item["b64_json"]))) for item in response.json()["data"]]


def refusal(response, status=400):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def same(one, other):
    return ImageChops.difference(one.convert("RGB"), other.convert("RGB")).getbbox() is None


def test_a_bare_prompt_gives_one_png_of_the_checkpoints_default_size(client):
    response = client.images()
    [picture] = pictures(response)
    body = response.json()
    assert (picture.format, picture.size) == ("PNG", client.engine.sizes.default)
    assert body["size"] == "{}x{}".format(*client.engine.sizes.default)
    assert body["output_format"] == "png"
    assert body["created"] > 1_700_000_000
    assert body["metrics"]["num_inference_steps"] == client.engine.steps


def test_every_field_reaches_the_engine(client):
    plain = client.images(seed=1, num_inference_steps=2)
    other = client.images(
        seed=1, num_inference_steps=3, size="32x48", guidance_scale=4, negative_prompt="fog", n=1, user="u-1"
    )
    assert pictures(other)[0].size == (32, 48)
    assert other.json()["metrics"]["num_inference_steps"] == 3
    assert client.engine.steps == 2 + 3
    unguided = client.images(seed=1, num_inference_steps=3, size="32x48", guidance_scale=0)
    assert not same(pictures(other)[0], pictures(unguided)[0])
    assert not same(pictures(plain)[0], pictures(client.images(seed=2, num_inference_steps=2))[0])


def test_sglang14595_n_2_gives_two_images_each_equal_to_that_seeds_own(client):
    both = client.images(n=2, seed=5, num_inference_steps=2)
    assert [item["seed"] for item in both.json()["data"]] == [5, 6]
    first, second = pictures(both)
    assert not same(first, second)
    assert same(second, pictures(client.images(seed=6, num_inference_steps=2))[0])


def test_without_a_seed_the_chosen_one_is_told_and_draws_the_image_again(client):
    response = client.images(num_inference_steps=2)
    seed = response.json()["data"][0]["seed"]
    again = client.images(num_inference_steps=2, seed=seed)
    assert same(pictures(response)[0], pictures(again)[0])


@pytest.mark.parametrize(
    ("output_format", "format_name"), [("jpeg", "JPEG"), ("webp", "WEBP"), ("png", "PNG")]
)
def test_output_formats(client, output_format, format_name):
    response = client.images(num_inference_steps=1, output_format=output_format)
    assert pictures(response)[0].format == format_name
    assert response.json()["output_format"] == output_format


def test_sglang19346_absent_null_and_b64_json_response_formats_all_answer(client):
    for body in ({}, {"response_format": None}, {"response_format": "b64_json"}):
        assert pictures(client.images(num_inference_steps=1, **body))


def test_openai_fields_at_their_defaults_change_nothing(client):
    body = {"quality": "auto", "style": None, "background": "auto", "stream": False, "size": "auto"}
    assert pictures(client.images(num_inference_steps=1, **body))[0].size == client.engine.sizes.default
    assert pictures(client.images(num_inference_steps=1, background="opaque"))


def test_null_is_absent_for_every_field(client):
    nothing = dict.fromkeys([*ImageBody.model_fields])
    response = client.images(**{**nothing, "prompt": "a", "num_inference_steps": 1})
    assert [picture.format for picture in pictures(response)] == ["PNG"]


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"siez": "64x64"}, "siez", "unknown field 'siez' (did you mean 'size'?)"),
        ({"prompt": 7}, "prompt", "'prompt' should be a valid string, got 7"),
        ({"prompt": None}, "prompt", "'prompt' is required"),
        ({"siez": None}, "siez", "unknown field 'siez'"),
        ({"prompt": ""}, "prompt", "'prompt' should have at least 1 character"),
        ({"n": 0}, "n", "'n' should be greater than or equal to 1, got 0"),
        ({"n": 11}, "n", "'n' should be less than or equal to 10, got 11"),
        ({"n": "2"}, "n", "'n' should be a valid integer, got '2'"),
        ({"n": True}, "n", "'n' should be a valid integer, got True"),
        ({"size": "axb"}, "size", "axb"),
        ({"size": "33x32"}, "size", "32x32"),
        ({"size": "100000x10000"}, "size", "limit"),
        ({"size": "0x32"}, "size", "0x32"),
        ({"size": "1024x1024"}, "size", "1024"),
        ({"size": [64, 64]}, "size", "'size' should be a valid string"),
        ({"num_inference_steps": 201}, "num_inference_steps", "less than or equal to 200"),
        ({"num_inference_steps": 0}, "num_inference_steps", "greater than or equal to 1"),
        ({"guidance_scale": 20.5}, "guidance_scale", "less than or equal to 20"),
        ({"guidance_scale": -1}, "guidance_scale", "greater than or equal to 0"),
        ({"seed": 1.5}, "seed", "'seed' should be a valid integer, got 1.5"),
        ({"seed": 2**63}, "seed", "'seed' should be less than or equal to"),
        ({"seed": 2**63 - 1, "n": 2}, "seed", "seed + n - 1"),
        ({"output_format": "gif"}, "output_format", "'png', 'jpeg' or 'webp'"),
        ({"response_format": "url"}, "response_format", "leave it out or send 'b64_json'"),
        ({"response_format": "file"}, "response_format", "no such format"),
        ({"quality": "hd"}, "quality", "'auto' or 'standard'"),
        ({"stream": True}, "stream", "False"),
        ({"lora": {"path": "/etc/passwd"}}, "lora", "unknown field 'lora'"),
    ],
)
def test_a_bad_field_is_400_before_anything_is_generated(client, body, param, says):
    error = refusal(client.images(**body))
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert says in error["message"]
    assert client.engine.calls == 0


def test_all_problems_are_told_at_once(client):
    message = refusal(client.images(n=0, siez="64x64", seed="x"))["message"]
    assert all(f"'{name}'" in message for name in ("n", "siez", "seed"))


def test_only_so_many_problems_are_told_and_none_at_length(client):
    many = refusal(client.images(**{f"{index:x}": 0 for index in range(5000)}))
    assert many["message"].endswith("and 4990 more") or len(many["message"]) == 2000
    assert many["param"] == "0"
    for body in (
        {"k" * 60_000: 1},
        {"size": "9" * 60_000},
        {"model": "m" * 60_000},
        {"quality": "q" * 60_000},
    ):
        response = client.images(**body)
        assert response.status_code in {400, 404}
        assert len(response.content) < 3000


def test_what_cannot_be_written_as_utf8_is_refused_in_words(client):
    for content in (
        b'{"prompt": "a", "\\ud800": 1}',
        b'{"\\ud800": 1, "\\ud800": 1}',
        b'{"negative_prompt": "\\ud800", "prompt": "a"}',
    ):
        error = refusal(client.request("POST", GENERATIONS, content=content, headers=JSON))
        assert r"\ud800" in error["message"]
    assert error["param"] == "negative_prompt"
    assert client.engine.steps == 0


def test_a_value_too_deep_to_be_shown_is_still_refused(client):
    for opens, closes in (("[", "]"), ('{"a":', "}")):
        content = f'{{"prompt": "a", "size": {opens * 900}1{closes * 900}}}'
        response = client.request("POST", GENERATIONS, content=content, headers=JSON)
        assert refusal(response)["param"] == "size"


@pytest.mark.parametrize(
    ("content", "headers", "says"),
    [
        (b"{", JSON, "not JSON"),
        (b"", JSON, "not JSON"),
        (b"\xff\xfe", JSON, "not JSON"),
        (b"[" * 60_000, JSON, "not JSON"),
        (b'{"seed": ' + b"9" * 5000 + b"}", JSON, "not JSON"),
        (b"[]", JSON, "must be a JSON object"),
        (b'{"prompt": "a", "prompt": "b"}', JSON, "'prompt' is given twice"),
        (b'{"prompt": "\\ud800"}', JSON, "'prompt'"),
        (b'{"prompt": "a", "guidance_scale": NaN}', JSON, "finite"),
        (b'{"prompt": "a"}', {"content-type": "text/plain"}, "send the body as application/json"),
        (b'{"prompt": "a"}', {}, "Content-Type is missing"),
    ],
)
def test_a_body_that_is_no_json_object_is_400(client, content, headers, says):
    response = client.request("POST", GENERATIONS, content=content, headers=headers)
    assert says in refusal(response)["message"]
    assert client.engine.calls == 0


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_413(client, chunked):
    content = json.dumps({"prompt": "a" * BODY_LIMIT}).encode()

    async def pieces():
        yield content[: BODY_LIMIT // 2]
        yield content[BODY_LIMIT // 2 :]

    response = client.request("POST", GENERATIONS, content=pieces() if chunked else content, headers=JSON)
    assert refusal(response, 413)["code"] == "body_too_large"


def test_a_prompt_that_would_be_cut_is_refused_with_its_field(client):
    for field in ("prompt", "negative_prompt"):
        error = refusal(client.images(**{field: "fog " * 1000, "num_inference_steps": 1}))
        assert error["param"] == field
    assert client.engine.steps == 0


def test_vllm_omni2586_a_huge_size_is_refused_and_the_next_request_works(client):
    refusal(client.images(size="100000x10000"))
    assert pictures(client.images(num_inference_steps=1))


def test_the_model_name_is_checked_where_it_is_given(client):
    error = refusal(client.images(model="gpt-image-1"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "tiny/z_image" in error["message"]
    [served] = client.get("/v1/models").json()["data"]
    assert served["object"] == "model"
    assert client.get(f"/v1/models/{served['id']}").json() == served
    assert refusal(client.get("/v1/models/gpt-image-1"), 404)["code"] == "model_not_found"
    assert pictures(client.images(model=served["id"], num_inference_steps=1))


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "says"),
    [
        ("GET", GENERATIONS, 405, "method_not_allowed", "takes POST"),
        ("POST", "/v1/image/generations", 404, "unknown_url", f"did you mean '{GENERATIONS}'"),
        ("GET", "/docs", 404, "unknown_url", "no such path"),
        ("POST", f"{GENERATIONS}/", 404, "unknown_url", f"did you mean '{GENERATIONS}'"),
        ("GET", "/health/", 404, "unknown_url", "did you mean '/health'"),
    ],
)
def test_wrong_paths_and_methods_answer_like_everything_else(client, method, path, status, code, says):
    error = refusal(client.request(method, path), status)
    assert error["code"] == code
    assert says in error["message"]


def test_while_loading_everything_is_503_and_says_when_to_come_back(loading_client):
    health = loading_client.get("/health")
    assert (health.status_code, health.json()) == (503, {"status": "loading"})
    for response in (loading_client.images(), loading_client.get("/v1/models")):
        assert refusal(response, 503)["code"] == "loading"
        assert int(response.headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
def test_head_answers_like_get(client, loading_client, path):
    assert client.request("HEAD", path).status_code == 200
    assert loading_client.request("HEAD", path).status_code == 503


def test_one_generation_at_a_time_while_health_answers(client):
    client.engine.may_go.clear()

    async def both():
        async with client.session() as session:
            body = {"prompt": "a", "num_inference_steps": 1}
            running = [asyncio.create_task(session.post(GENERATIONS, json=body)) for _ in range(2)]
            await asyncio.to_thread(client.engine.entered.wait, 60)
            health = await session.get("/health")
            client.engine.may_go.set()
            return health, await asyncio.gather(*running)

    health, answers = asyncio.run(both())
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert [answer.status_code for answer in answers] == [200, 200]
    assert client.engine.most_inside == 1


async def by_hand(client, content, then):
    """Speak ASGI: send *content*, whole or not, and after that whatever the coroutine function *then* returns."""
    sent = iter([{"type": "http.request", **content}])
    answers = []

    async def receive():
        return next(sent, None) or await then()

    async def send(message):
        answers.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": GENERATIONS,
        "raw_path": GENERATIONS.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json"), (b"host", b"omni")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await client.app(scope, receive, send)
    return answers[0]["status"]


def at_the_door(client, story):
    """Run *story*, in which the engine is held; it is let go also when the story fails."""
    try:
        return asyncio.run(story)
    finally:
        client.engine.may_go.set()


HANG_S = 20
GONE = {"type": "http.disconnect"}
ONE_STEP = {"prompt": "a", "num_inference_steps": 1}


def test_the_queue_has_an_end_and_clients_that_left_take_no_place_in_it(client):
    client.engine.may_go.clear()

    async def crowded():
        leaving = asyncio.Event()

        async def leave():
            await leaving.wait()
            return GONE

        content = {"body": json.dumps(ONE_STEP).encode()}
        crowd = [asyncio.create_task(by_hand(client, content, leave)) for _ in range(64)]
        async with client.session() as session:
            await asyncio.to_thread(client.engine.entered.wait, 60)
            one_too_many = await asyncio.wait_for(session.post(GENERATIONS, json=ONE_STEP), HANG_S)
            leaving.set()
            first, *waiting = crowd
            left = await asyncio.wait_for(asyncio.gather(*waiting), HANG_S)
            assert not first.done()
            live = asyncio.create_task(session.post(GENERATIONS, json=ONE_STEP))
            await asyncio.wait([live], timeout=0.2)
            client.engine.may_go.set()
            return one_too_many, {*left, await first}, await live

    one_too_many, left, live = at_the_door(client, crowded())
    assert refusal(one_too_many, 503)["code"] == "server_busy"
    assert left == {503}
    assert pictures(live)
    assert client.engine.calls == 2


def test_vllm_omni1347_a_client_that_leaves_frees_the_engine_and_hurts_nobody_else(client):
    async def leave_after_first_step():
        assert await asyncio.to_thread(client.engine.stepped.wait, 60)
        return GONE

    body = json.dumps({"prompt": "a", "n": 10, "num_inference_steps": 200}).encode()
    assert asyncio.run(by_hand(client, {"body": body}, leave_after_first_step)) == 503
    assert 0 < client.engine.steps < 2000
    assert client.engine.inside == 0
    assert pictures(client.images(num_inference_steps=1))


def test_a_client_that_leaves_amid_its_body_is_no_event(client, caplog):
    async def leave():
        return GONE

    asyncio.run(by_hand(client, {"body": b'{"prompt"', "more_body": True}, leave))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert client.engine.calls == 0


def test_a_body_that_does_not_arrive_is_408(client, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_S", 0.05)

    async def stall():
        await asyncio.sleep(60)

    half = {"body": b'{"prompt"', "more_body": True}
    assert asyncio.run(by_hand(client, half, stall)) == 408
    assert pictures(client.images(num_inference_steps=1))


def test_what_waits_when_the_server_stops_is_told_at_once(client):
    client.engine.may_go.clear()

    async def stopped():
        async with client.session() as session:
            running, waiting = [
                asyncio.create_task(session.post(GENERATIONS, json=ONE_STEP)) for _ in range(2)
            ]
            await asyncio.to_thread(client.engine.entered.wait, 60)
            client.app.state.slot.stop()
            answer = await asyncio.wait_for(waiting, HANG_S)
            assert not running.done()
            client.engine.may_go.set()
            await running
            return answer

    assert refusal(at_the_door(client, stopped()), 503)["code"] == "cancelled"
    assert client.engine.calls == 1


def test_a_stopping_server_ends_what_runs_and_refuses_what_comes(client):
    client.engine.may_go.clear()

    async def stopped():
        async with client.session() as session:
            running = asyncio.create_task(session.post(GENERATIONS, json={"prompt": "a"}))
            await asyncio.to_thread(client.engine.entered.wait, 60)
            client.app.state.slot.stop()
            client.engine.may_go.set()
            return await running

    assert refusal(asyncio.run(stopped()), 503)["code"] == "cancelled"
    assert refusal(client.images(), 503)["code"] == "server_stopping"
    assert client.get("/health").json() == {"status": "stopping"}


def test_an_unexpected_failure_is_500_without_our_insides_and_the_server_lives(client):
    client.engine.fails_with = RuntimeError("secret detail")
    error = refusal(client.images(), 500)
    assert error["type"] == "server_error"
    assert "secret detail" not in error["message"]
    client.engine.fails_with = None
    assert pictures(client.images(num_inference_steps=1))


def test_no_prompt_is_ever_logged(client, caplog):
    caplog.set_level(logging.DEBUG)
    client.images(prompt="the hidden lighthouse", num_inference_steps=1)
    client.images(prompt="the hidden lighthouse", n=0)
    assert "64x64" in caplog.text or "steps" in caplog.text
    assert "hidden" not in caplog.text


def test_the_schema_of_the_body_is_published(client):
    operation = client.get("/openapi.json").json()["paths"][GENERATIONS]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) == set(ImageBody.model_fields)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.dictionaries(st.sampled_from([*ImageBody.model_fields]) | st.text(max_size=8), VALUES, max_size=6)
)
def test_any_json_object_is_answered_never_a_crash(loading_client, body):
    response = loading_client.request("POST", GENERATIONS, content=json.dumps(body), headers=JSON)
    # No engine is loaded: a body that passes every check meets 503, or 404 for its model.
    assert response.status_code in {400, 404, 503}
    assert response.json()["error"]["message"]
