"""The nodes of a private cluster find each other, and nothing else."""

from pathlib import Path

from workers.local.cluster import NODES, Cluster
from workers.local.installation import Installation


def test_the_nodes_differ_in_name_share_epmd_and_cookie_and_join_the_first(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, lambda: Installation(("server",), ("ctl",), "epmd", tmp_path))
    names, epmds, cookies, joined = set(), set(), set(), []
    for number, node in enumerate(cluster.nodes):
        node.folder.mkdir()
        node.ports = {"amqp": 20_000 + number, "dist": 21_000 + number}
        launch = node.prepare()
        assert not launch.children
        names.add(launch.environ["RABBITMQ_NODENAME"])
        epmds.add(launch.environ["ERL_EPMD_PORT"])
        cookies.add((node.folder / ".erlang.cookie").read_text())
        joined.append("smena1@localhost" in (node.folder / "rabbitmq.conf").read_text())
    assert len(names) == len(set(cluster.url.split(","))) == NODES
    assert len(epmds) == len(cookies) == 1
    assert joined == [False, True, True]
