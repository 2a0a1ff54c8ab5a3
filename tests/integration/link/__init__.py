"""The link on a real RabbitMQ: publishing, consuming, delays, declaration, and what goes wrong with them."""
