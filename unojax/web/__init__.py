"""The game in the browser, from a server on this machine: `unojax play --web`.

`games` keeps one game for each tab and `tables` one table, both in a `store` of memory and files. `server` answers the browser.
The page is that of `unojax.board` with a bar around it.
Needs the extra `web`: `pip install 'unojax[web]'`.
"""
