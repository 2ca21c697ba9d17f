"""What is told of queries to those who watch them: figures by name, and who serves them."""
