"""Take messages from RabbitMQ: consumer, topology check, canary."""
