"""What columns a table has: types, their definitions as text, which values fit them, and columns that come later."""
