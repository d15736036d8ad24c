"""What bodies look like: the models, and which operation takes and answers which of them."""
