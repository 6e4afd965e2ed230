"""An event clock: simulated time in integer nanoseconds."""
