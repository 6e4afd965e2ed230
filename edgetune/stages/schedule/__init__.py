"""Several networks in little memory: layers are loaded, executed and unloaded as tasks, under a budget."""
