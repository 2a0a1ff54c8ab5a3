"""Drills of dying processes: one file each."""
