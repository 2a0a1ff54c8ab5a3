"""Ports are free, below the kernel's own range, and kept."""

import json
import socket
from pathlib import Path

from workers.local.ports import LOOPBACK, keep_ports, read_ports


def test_chosen_ports_are_free_and_below_the_outgoing_range(tmp_path: Path) -> None:
    ports = keep_ports(tmp_path / "ports.json", ["one", "two", "three"])
    start = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports.values())) == 3
    for port in ports.values():
        assert 1024 < port < start
        with socket.socket() as server:
            server.bind((LOOPBACK, port))


def test_ports_are_kept_while_they_are_free(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    ports = keep_ports(file, ["one"])
    assert keep_ports(file, ["one"]) == ports
    with socket.socket() as taker:
        taker.bind((LOOPBACK, ports["one"]))
        taker.listen()
        assert keep_ports(file, ["one"]) != ports


def test_a_torn_file_is_no_ports(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    file.write_text('{"one": 15')
    assert read_ports(file) == {}
    assert json.loads(json.dumps(keep_ports(file, ["one"]))).keys() == {"one"}
