"""Computing keys: their rows gathered from the inputs, the function called, and failing keys found."""
