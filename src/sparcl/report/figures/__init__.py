"""Drawing: line plots, heat maps and bars as SVG, pictures as PNG. They know nothing of runs."""
