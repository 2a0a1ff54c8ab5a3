"""The protocol of settling as a state machine: what is real in it, and what is not, is said in `machine.py`."""
