"""The only places where objects are built and joined: one file for each role."""
