"""Ground that exact training and SimFL share: messages, rows, settings, the model of all parties."""
