"""Faults made on purpose, and the judge that says whether anything was lost, doubled or blamed.

A drill is one file in `deaths/`, `weather/` or `work/`, named after the drill, with one value ``DRILL`` (a
`drill.Drill`); it is found there and needs no other line of code. Its page `docs/runbooks/drill-NAME.md` is asked for
by a test. What a drill says of itself:

- ``name`` (the file's, with dashes), ``group``, ``summary`` (one line for `smena drill list`);
- ``fault(ground)``: make the fault while the load runs, and return when the fleet is back. It calls
  ``ground.strike(bite)`` at the moment of the fault, with how many jobs it hit, read from broker and database (`sight`,
  `queues`), never from a worker; ``ground.recovered(...)`` waits until all is back and measures it; ``ground.bar(...)``
  is a number that is judged;
- ``least_bite``: under it the fault hit nothing, and the drill fails;
- ``destructive``: it hurts more than the drill's own processes, so it is refused against services that were given,
  unless named;
- ``private``: it cannot be held against services that were given, not even named;
- ``load`` and ``fleet``: what runs while it strikes (`load.LoadPlan`, `fleet.FleetPlan`);
- ``around(ground)``: a block round the fleet's whole life that gives it further settings, such as a proxy's address;
- ``controls``: the guards to take out with `--controls`, and what the judge must then find.

All the rest is the framework's: services, the fleet, the load, waiting until every accepted job has ended, stopping,
and the verdict, which counts rows of the schema `drill` and messages in queues, and asks no worker (`verdict`).
"""
