"""The models of bodies, and the operations that take and return them."""
