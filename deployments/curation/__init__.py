"""Strata's own workers: the Curator keeps the indexes equal to the records, the Sweeper heals what came apart, the Eraser forgets."""
