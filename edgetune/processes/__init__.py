"""Child processes, locks and privileges: foreign programs run in processes of their own."""
