"""Drawing: line plots, scatter plots, bars and heat maps. It knows nothing about runs.

chart, lines ──► axes ──► marks (data) ──► svg: with classes for a page, with colours for a file
panels ──► several line plots                └─► png
heatmap, raster: for pages only
palette: every colour, and how each kind of mark looks
"""

__all__: list[str] = []  # modules are imported by name, so that nothing is loaded that nobody asked for
