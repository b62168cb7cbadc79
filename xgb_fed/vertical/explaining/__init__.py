"""Explanations of a vertical model: Shapley values and decision paths, by consent."""
