"""Servers side by side on the cards of one item: each has its own, and where there is none it is said."""

from __future__ import annotations

import pytest

from omni_hardware.errors import InputError
from omni_hardware.inventory import Device, Inventory, Visible
from omni_hardware.requirements import Need
from pytest_omni.cards.grant import Grant
from pytest_omni.cards.shares import Tenant, require_one_each, share

XDIST = ("xdist.plugin", "pytest_omni.plugin")
CUDA = "CUDA_VISIBLE_DEVICES"


def grant(*positions):
    rows = tuple(Device(index, f"GPU-{index}", "H100") for index in range(8))
    inventory = Inventory("cuda", devices=rows, visible=Visible(CUDA, None))
    return Grant(Need(platform="cuda", cards=len(positions)), positions, inventory)


@pytest.mark.parametrize(
    ("cards", "taken", "planned", "part"),
    [
        pytest.param((4, 5), (), 1, (4, 5), id="alone it has all"),
        pytest.param((4, 5), (), 2, (4,), id="it leaves one to the other"),
        pytest.param((4, 5), (4,), 1, (5,), id="the other gets the rest"),
        pytest.param((0, 1, 2, 3), (), 2, (0, 1), id="even parts"),
        pytest.param((0, 1, 2), (0,), 1, (1, 2), id="the last one gets what is left"),
        pytest.param((3,), (), 2, (3,), id="the second comes with another test"),
        pytest.param((3,), (2,), 1, (3,), id="a tenant elsewhere is in nobody's way"),
        pytest.param((), (), 2, (), id="no cards, nothing to divide"),
    ],
)
def test_what_a_server_gets(cards, taken, planned, part):
    tenants = [Tenant("omni_server", "a.py::test_a", taken)] if taken else []
    assert share(grant(*cards), "omni_server", tenants, what="t", planned=planned).positions == part


def test_a_server_without_a_card_is_refused():
    tenant = Tenant("omni_server", "a.py::test_a", (0, 1))
    with pytest.raises(InputError) as error:
        share(grant(0, 1), "omni_server_function", [tenant], what="a.py::test_b", planned=1)
    assert str(error.value) == (
        "a.py::test_b asks for omni_server_function, and omni_server of a.py::test_a lives on all of its cards "
        "(H100 GPU-0, H100 GPU-1): one card serves one server. Put the test into another module; or name both servers "
        "among its arguments and declare num_cards=3, and each gets a part of the cards"
    )


@pytest.mark.parametrize(("cards", "servers"), [(0, 2), (1, 1), (2, 2), (1, 0)])
def test_as_many_servers_as_cards_are_fine(cards, servers):
    names = ("omni_server", "omni_server_function")[:servers]
    require_one_each("t", Need(platform="cuda", cards=cards), names)


HEAD = """
from talk import *
from pytest_omni import hardware_test
both = lambda test: served("--print-env", "CUDA_VISIBLE_DEVICES")(
    served("--print-env", "CUDA_VISIBLE_DEVICES", fixture="omni_server_function")(test))

def sees(server):
    get(server)
    return server.log_path.read_text().split("=")[1].strip().strip("'")
"""


@pytest.mark.process
@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_one_card_serves_one_server(cards, armed, inner, workers):
    option = cards(3)
    armed.makepyfile(
        HEAD
        + """
@hardware_test(res={"cuda": "H100"})
@served("--print-env", "CUDA_VISIBLE_DEVICES")
def test_module(omni_server): assert sees(omni_server) == "0"

@hardware_test(res={"cuda": "H100"})
@both
def test_too_few(omni_server, omni_server_function): pass

@hardware_test(res={"cuda": "H100"}, num_cards=2)
@both
def test_each(omni_server, omni_server_function):
    assert (sees(omni_server), sees(omni_server_function)) == ("0", "1")

@hardware_test(res={"cuda": "H100"})
@served("--print-env", "CUDA_VISIBLE_DEVICES", fixture="omni_server_function")
def test_alone(omni_server_function): pass
"""
    )
    result = inner(workers, *option, plugins=XDIST)
    result.assert_outcomes(passed=2, errors=2)
    name, said = "test_one_card_serves_one_server.py", result.stdout.str()
    assert f"{name}::test_too_few[stub-stub] asks for omni_server and omni_server_function at once" in said
    taken = f"{name}::test_alone[stub] asks for omni_server_function, and omni_server of {name}::test_module[stub]"
    assert f"{taken} lives on all of its cards (H100 GPU-00000000): one card serves one server." in said


@pytest.mark.process
@pytest.mark.usefixtures("talk")
def test_servers_side_by_side_divide_the_cards_whichever_test_comes_first(cards, armed, inner):
    option = cards(2)
    two = '@hardware_test(res={"cuda": "H100"}, num_cards=2)\n'
    alone = f'{HEAD}{two}@served("--print-env", "CUDA_VISIBLE_DEVICES")\ndef test_first(omni_server):\n'
    both = f"{two}@both\ndef test_%s(omni_server, omni_server_function):\n"
    each = both + '    assert (sees(omni_server), sees(omni_server_function)) == ("0", "1")\n'
    armed.makepyfile(
        test_a=f'{alone}    assert sees(omni_server) == "0"\n{each % "both"}{each % "again"}',
        test_b=f'{alone}    assert sees(omni_server) == "0,1"\n',
    )
    inner(*option).assert_outcomes(passed=4)


def test_an_engine_in_this_process_shares_no_card_with_a_server():
    engine, server = Tenant("omni_runner", "a.py::t", (0, 1)), Tenant("omni_server", "a.py::t", (1,))
    assert share(grant(0, 1), "omni_runner_function", [engine], what="u", planned=1).positions == (0, 1)
    assert share(grant(0), "omni_runner", [server], what="u", planned=1).positions == (0,)
    because = "an engine in this process sees every card of its test, so that it shares none with a server"
    for fixture, tenant, lives in (
        ("omni_runner", server, "omni_server of a.py::t lives on H100 GPU-1"),
        ("omni_server", engine, "omni_runner of a.py::t lives on H100 GPU-0, H100 GPU-1"),
    ):
        with pytest.raises(InputError) as error:
            share(grant(0, 1), fixture, [tenant], what="a.py::u", planned=1)
        assert str(error.value) == (
            f"a.py::u asks for {fixture}, and {lives}: {because}. Put the test into another module"
        )


@pytest.mark.process
@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_an_engine_beside_a_server_on_its_cards_is_refused_before_either_starts(cards, armed, inner, workers):
    option = cards(2)
    with (armed.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "\nimport pathlib\n"
            "def pytest_omni_engine(config, params):\n"
            "    pathlib.Path('engines').open('a').write('made ')\n"
            "    return object()\n"
        )
    armed.makepyfile(
        HEAD
        + """
one, two = hardware_test(res={"cuda": "H100"}), hardware_test(res={"cuda": "H100"}, num_cards=2)
engine = lambda fixture: pytest.mark.parametrize(fixture, [OmniServerParams("m")], indirect=True, ids=["m"])

@two
@engine("omni_runner_function")
@served("--pids", "servers", fixture="omni_server_function")
def test_both(omni_runner_function, omni_server_function): pass

@engine("omni_runner_function")
@served("--pids", "servers", fixture="omni_server_function")
def test_both_without_cards(omni_runner_function, omni_server_function): pass

@one
@served("--pids", "servers")
def test_server(omni_server): pass

@one
@engine("omni_runner_function")
def test_engine(omni_runner_function): pass
"""
    )
    result = inner(workers, *option, plugins=XDIST)
    result.assert_outcomes(passed=2, errors=2)
    name, said = (
        "test_an_engine_beside_a_server_on_its_cards_is_refused_before_either_starts.py",
        result.stdout.str(),
    )
    assert (
        f"{name}::test_both[stub-m] asks for omni_runner_function and omni_server_function at once and needs "
        "cuda H100×2: an engine in this process sees every card of the test, so that none is left for a server. "
    ) in said
    assert (
        f"{name}::test_engine[m] asks for omni_runner_function, and omni_server of {name}::test_server[stub] lives on "
        "H100 GPU-00000000: an engine in this process"
    ) in said
    assert (armed.path / "engines").read_text() == "made "
    assert len((armed.path / "servers").read_text().split()) == 2
