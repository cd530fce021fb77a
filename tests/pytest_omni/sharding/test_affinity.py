"""What tests share, on real items of the pytest at hand; and which of it keeps them together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_omni.sharding.affinity import Affinities, Instance
from pytest_omni.sharding.bonds import CHEAP_S, bonds

PROJECT = """
import pytest

@pytest.fixture(scope="module")
def omni_server(request): return request.param

@pytest.fixture(scope="module")
def client(omni_server): return omni_server

@pytest.fixture(scope="session")
def weights(): pass

@pytest.fixture(scope="session", params=["cpu", "gpu"])
def device(request): return request.param

@pytest.fixture(scope="class")
def of_class(): pass

@pytest.fixture
def of_function(weights): pass

class Params:
    def __init__(self, model): self.model = model
    def __eq__(self, other): return self.model == other.model
    __hash__ = None
    def __repr__(self): return f"Params({self.model})"

BOTH = pytest.mark.parametrize("omni_server", [Params("z"), Params("w")], ids=["z_image", "wan"], indirect=True)

@BOTH
def test_one(client, of_function, tmp_path_factory): pass

@pytest.mark.parametrize("x", [1, 2])
@pytest.mark.parametrize(("omni_server", "expected"), [(Params("z"), 1)], ids=["z_image"], indirect=["omni_server"])
def test_two(omni_server, expected, x): pass

@pytest.mark.parametrize("omni_server", [Params("other")], ids=["z_image"], indirect=True)
def test_same_id(omni_server): pass

@pytest.mark.parametrize("plain", [1, 2], scope="module")
def test_direct(plain): pass

def test_params(device): pass

class TestClass:
    def test_a(self, of_class): pass
    def test_b(self, of_class): pass

def test_outside(of_class): pass

@pytest.mark.xdist_group("pair")
@pytest.mark.xdist_group(name="other")
@pytest.mark.xdist_group
def test_marked(): pass
"""

Shared = Callable[[str], dict[str, list[str]]]


@pytest.fixture
def keys_of(pytester: pytest.Pytester) -> Shared:
    def keys(source: str) -> dict[str, list[str]]:
        affinities = Affinities()
        items = pytester.getitems(source)
        found = {item.name: [instance.key for instance in affinities.of(item)] for item in items}
        assert not affinities.degraded
        return found

    return keys


def test_a_fixture_is_told_apart_by_scope_node_and_parameter(keys_of: Shared) -> None:
    name = "test_a_fixture_is_told_apart_by_scope_node_and_parameter.py"
    found = keys_of(PROJECT)

    # what is built on a parametrized fixture is built once a parameter as well
    assert sorted(found["test_one[z_image]"]) == [
        f"client@{name}[z_image]",
        f"omni_server@{name}[z_image]",
        "weights@session",
    ]
    assert f"omni_server@{name}[wan]" in found["test_one[wan]"]
    # equal parameters are one server, whatever the test is called and however it is parametrized
    assert found["test_two[z_image-1]"] == found["test_two[z_image-2]"] == [f"omni_server@{name}[z_image]"]
    # two servers may carry one id
    assert found["test_same_id[z_image]"] == [f"omni_server@{name}[z_image]#2"]
    assert found["test_direct[1]"] == []
    assert found["test_params[cpu]"] == ["device@session[cpu]"]
    assert found["test_a"] == found["test_b"] == [f"of_class@{name}::TestClass"]
    assert found["test_outside"] == []


def test_without_the_private_attributes_our_servers_are_still_told_apart(pytester: pytest.Pytester) -> None:
    items = [item for item in pytester.getitems(PROJECT) if item.name.startswith(("test_one", "test_params"))]
    affinities = Affinities()
    for item in items:
        del item._fixtureinfo  # type: ignore[attr-defined]

    found = {item.name: affinities.of(item) for item in items}

    assert affinities.degraded
    assert [instance.fixture for instance in found["test_one[wan]"]] == ["omni_server"]
    assert found["test_one[wan]"] != found["test_one[z_image]"]
    assert found["test_params[cpu]"] == ()


def test_a_package_fixture_belongs_to_the_package_that_defines_it(pytester: pytest.Pytester) -> None:
    for folder in ("pkg", "pkg/inner"):
        pytester.mkpydir(folder)
    (pytester.path / "pkg/conftest.py").write_text(
        "import pytest\n@pytest.fixture(scope='package')\ndef engine(): pass\n"
    )
    (pytester.path / "pkg/inner/test_x.py").write_text("def test_x(engine): pass\n")
    items, _ = pytester.inline_genitems("pkg")

    assert [instance.key for instance in Affinities().of(items[0])] == ["engine@pkg"]


def test_the_names_of_groups_are_those_that_xdist_reads(pytester: pytest.Pytester) -> None:
    affinities = Affinities()
    source = "import pytest\npytestmark = pytest.mark.xdist_group('file')\n" + PROJECT
    items = {item.name: item for item in pytester.getitems(source)}

    assert sorted(affinities.groups(items["test_marked"])) == ["default", "file", "other", "pair"]
    assert affinities.groups(items["test_a"]) == ("file",)


SERVER = Instance("omni_server@a.py[z]", "omni_server", "module", parametrized=True)
ENGINE = Instance("engine@a.py", "engine", "module", parametrized=False)
CHOSEN = Instance("engine@a.py[z]", "engine", "module", parametrized=True)
WIDE = Instance("weights@session", "weights", "session", parametrized=False)
WIDE_CHOSEN = Instance("weights@session[z]", "weights", "session", parametrized=True)


@pytest.mark.parametrize(
    ("instance", "measured", "users", "counts"),
    [
        pytest.param(SERVER, None, 3, True, id="ours always"),
        pytest.param(SERVER, 0.1, 3, True, id="ours, cheap as it may be"),
        pytest.param(ENGINE, None, 3, False, id="a user's, nothing known"),
        pytest.param(ENGINE, CHEAP_S, 3, True, id="a user's, measured"),
        pytest.param(ENGINE, CHEAP_S, 4, True, id="a user's module fixture of every test"),
        pytest.param(CHOSEN, None, 3, True, id="a user's, chosen by the test"),
        pytest.param(CHOSEN, CHEAP_S / 2, 3, False, id="chosen, but measured to be cheap"),
        pytest.param(WIDE, 60.0, 2, True, id="session-wide, for half of the tests"),
        pytest.param(WIDE, 60.0, 3, False, id="session-wide, for most: every shard builds it"),
        pytest.param(WIDE_CHOSEN, 60.0, 3, True, id="session-wide, chosen by the test"),
    ],
)
def test_which_fixtures_keep_tests_together(
    instance: Instance, measured: float | None, users: int, counts: bool
) -> None:
    shared = [(instance,)] * users + [()] * (4 - users)
    durations = {} if measured is None else {instance.key: measured}

    assert bonds(shared, durations) == [((instance.key,) if counts and at < users else ()) for at in range(4)]


def test_interleaved_variants_share_what_adjacent_ones_share(pytester: pytest.Pytester) -> None:
    """A plugin may shuffle the tests, and answers are kept for the last function and parent only."""
    items = pytester.getitems(PROJECT)
    affinities = Affinities()
    sorted_keys = {item.name: {one.fixture: one for one in affinities.of(item)} for item in items}
    for order in (items[::-1], items[::2] + items[1::2]):
        for item in order:
            assert {one.fixture: one for one in affinities.of(item)} == sorted_keys[item.name]
            assert affinities.groups(item) == (
                ("default", "other", "pair") if item.name == "test_marked" else ()
            )
