"""One file for each revision; a revision that is out in the world is never changed."""
