"""The table of proofs names what stands in the tree; `./run check --proofs` then tries each."""

from __future__ import annotations

import pytest

from tests.proofs import ROOT, Proof, table

PROOFS = table()


@pytest.mark.parametrize("proof", PROOFS, ids=[proof.id for proof in PROOFS])
def test_a_proof_names_a_guard_and_a_test_that_are_there(proof: Proof) -> None:
    proof.check(ROOT)
    file, _, name = proof.test.partition("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")


def test_each_proof_has_an_id_of_its_own() -> None:
    assert len({proof.id for proof in PROOFS}) == len(PROOFS)
