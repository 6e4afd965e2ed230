"""Reports: what each kind of artifact shows, on a page or on a terminal."""
