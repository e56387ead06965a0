"""Candlestick charts of one-minute bars: what CHART_EXPORT is made of.

request.py   inputs → requests, or why not                         pure
bars.py      documents → bars, minutes → longer bars               pure
sources.py   where a symbol's bars are, for each way of naming them
find.py      a window of bars, the first or the last so many
layout.py    where each candle, gap and tick goes                  pure
labels.py    what is written beside them                           pure
draw.py      the picture; the only module that imports matplotlib
files.py     names, durable writes, the manifest
"""
