"""Speak AMQP: links, codec, names and arguments of queues, declaration, publishing with confirms."""
