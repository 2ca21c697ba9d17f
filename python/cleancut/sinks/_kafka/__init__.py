"""Epochs as transactions of a Kafka topic."""
