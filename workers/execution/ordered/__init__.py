"""Run the jobs of ordered actors: of each key one at a time, in order, only while its partition is ours."""
