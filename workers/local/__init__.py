"""Private RabbitMQ, PostgreSQL and Valkey for one machine: free loopback ports, own folder, nothing installed."""
