"""The machine: messages in, through the rings, to the actor and to settle; processes, doors and loops."""
