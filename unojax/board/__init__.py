"""The board that a person plays on by clicks, in a notebook or in a browser.

`unojax.widget` and `unojax.web` show it. Clicks arrive through `hear`; page data leaves through `publish`, and messages to the
person through `tell` (`face`). Refusals are ValueErrors with a message for the person.
"""
