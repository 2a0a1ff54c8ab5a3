"""What the fleet promises beyond delivery: once, election, limits, bulkhead, breaker, strikes."""
