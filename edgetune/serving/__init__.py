"""What every stage that answers requests shares: the event clock, arrivals and their words, and latency figures."""
