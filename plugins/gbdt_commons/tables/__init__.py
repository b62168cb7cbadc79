"""Tables, columns and arrays as users have them: what is known of their types, and never a cell of them."""
