"""Several queries in one consistent cut: the channels between them, and who coordinates them."""
