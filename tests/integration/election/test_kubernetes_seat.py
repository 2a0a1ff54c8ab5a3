"""What an election by a Lease of Kubernetes promises beyond the suite."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from smena.clock import SYSTEM, Clock
from smena.errors import Misconfigured, TermLost
from smena.guarantees.election.contract import Reason, Unseated
from smena.guarantees.election.kubernetes_seat import KubernetesElection
from smena.guarantees.election.lease_api import LeaseApi, LeaseStoreLost
from smena.store import terms
from smena.store.database import Database
from smena.store.terms import Term
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_proxy import Proxied
from tests.fixtures.kubernetes_server import KubernetesServer
from workers.drills.tcp_proxy import Way

from .backends import election, opened
from .conftest import SteppedClock
from .test_conformance import LONG_S

Stand = Callable[..., KubernetesElection]
NAME = "smena-drill"


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    """Give the API."""
    server = KubernetesServer()
    server.start()
    yield server
    server.end()


@pytest.fixture
def stand(server: KubernetesServer, database_url: str) -> Iterator[Stand]:
    """Give a function that makes a candidate without a thread, at an address."""
    with ExitStack() as ends:

        def standing(url: str = "", lease_s: float = LONG_S, clock: Clock = SYSTEM) -> KubernetesElection:
            one = election(ends, "kubernetes", url or server.address, database_url, "drill", lease_s, clock)
            assert isinstance(one, KubernetesElection)
            return one

        yield standing


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Give the database that holds the row."""
    database = opened(database_url)
    yield database
    database.close()


def test_the_lease_says_what_kubectl_shows(stand: Stand, server: KubernetesServer) -> None:
    stand(lease_s=15).campaign(0.1)
    spec = server.leases.objects[NAME]["spec"]
    assert spec["holderIdentity"].startswith("pod_")
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 1)
    assert spec["renewTime"].endswith("Z")


def test_of_two_that_find_the_seat_free_at_once_one_gets_it(stand: Stand, server: KubernetesServer) -> None:
    first, second = stand(), stand()
    assert first.campaign(0.1) == 1
    first.resign()
    asked = second._api.get(NAME, 1)
    assert stand().campaign(0.1) == 2
    assert second._taken(asked) is None


@pytest.mark.parametrize("status", [401, 429, 500, 503, 504])
def test_an_answer_that_passes_by_itself_ends_no_leadership(
    stand: Stand, server: KubernetesServer, status: int
) -> None:
    leader = stand()
    leader.campaign(0.1)
    server.answers_next = [status]
    with pytest.raises(LeaseStoreLost):
        leader.renew(4)
    leader.renew(4)


def test_a_conflict_that_only_changed_a_label_is_not_taken_for_a_takeover(
    stand: Stand, server: KubernetesServer
) -> None:
    leader = stand()
    leader.campaign(0.1)
    labelled = dict(server.leases.objects[NAME])
    labelled["metadata"] = {**labelled["metadata"], "labels": {"team": "shop"}}
    server.leases.put(NAME, labelled, is_new=False)
    leader.renew(4)
    assert server.leases.objects[NAME]["metadata"]["labels"] == {"team": "shop"}


def test_a_renewal_whose_answer_was_lost_is_found_again(
    stand: Stand, server: KubernetesServer, proxied: Callable[[str], Proxied]
) -> None:
    proxy, address = proxied(server.address)
    leader = stand(address)
    leader.campaign(0.1)
    proxy.deafen(Way.TO_CLIENT)
    with pytest.raises(LeaseStoreLost):
        leader.renew(1)
    proxy.heal()
    leader.renew(4)


def test_a_conflict_with_another_holder_ends_the_leadership(stand: Stand, server: KubernetesServer) -> None:
    leader = stand()
    leader.campaign(0.1)
    lease = dict(server.leases.objects[NAME])
    lease["spec"] = {**lease["spec"], "holderIdentity": "another", "leaseTransitions": 2}
    server.leases.put(NAME, lease, is_new=False)
    with pytest.raises(Unseated) as over:
        leader.renew(4)
    assert over.value.reason is Reason.TAKEN
    assert server.leases.objects[NAME]["spec"]["holderIdentity"] == "another"


def test_a_lease_that_was_deleted_goes_on_above_the_terms_that_were(
    stand: Stand, server: KubernetesServer, database: Database
) -> None:
    leader, other = stand(), stand()
    with database.transaction() as connection:
        assert terms.enter(connection, Term(leader.lease_name, "earlier", 50), 0)
    assert leader.campaign(0.1) == 51
    server.leases.delete(NAME)
    assert other.campaign(0.1) == 52
    with pytest.raises(Unseated):
        leader.renew(4)
    with pytest.raises(TermLost), database.transaction() as connection:
        terms.fence(connection, Term(leader.lease_name, "", 51))


def test_a_holder_whose_clock_is_a_day_ahead_is_relieved_no_later_and_no_sooner(stand: Stand) -> None:
    ahead = SteppedClock()
    ahead.ahead = timedelta(days=1)
    holder, candidate = stand(lease_s=1.0, clock=ahead), stand(lease_s=1.0)
    holder.campaign(0.1)
    assert candidate.campaign(0.1) is None
    assert eventually(lambda: candidate.campaign(0.2)) == 2


def test_a_token_that_was_changed_is_read_anew(stand: Stand, server: KubernetesServer) -> None:
    leader = stand()
    leader.campaign(0.1)
    server.set_token("second")
    leader.renew(4)


def test_an_account_without_the_right_says_which(stand: Stand, server: KubernetesServer) -> None:
    server.answers_next = [403]
    with pytest.raises(Misconfigured, match="may not get, create"):
        stand().campaign(0.1)


def test_outside_of_a_pod_the_boot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="service account"):
        LeaseApi("https://kubernetes.default.svc", tmp_path).check()


def test_it_speaks_to_nobody_whom_the_clusters_certificate_does_not_vouch_for(
    tmp_path: Path, database_url: str
) -> None:
    server = KubernetesServer(made(tmp_path, "server"))
    server.start()
    with ExitStack() as ends:
        ends.callback(server.end)
        one = election(ends, "kubernetes", server.address, database_url, "drill", LONG_S, SYSTEM)
        trust = server.account / "ca.crt"
        shutil.copy(made(tmp_path, "stranger")[0], trust)
        with pytest.raises(LeaseStoreLost, match="certificate"):
            one.campaign(0.1)
        shutil.copy(tmp_path / "server.crt", trust)
        assert one.campaign(0.1) == 1


def made(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate that vouches for itself, and its key."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl comes with ca-certificates"
    crt, key = folder / f"{name}.crt", folder / f"{name}.key"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(crt), *subject], check=True, capture_output=True)
    return crt, key
