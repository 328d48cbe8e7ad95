"""The game in the browser, from a server on this machine: `unojax play --web`.

`tabs` keeps a board for each tab, in memory and in files: `games` against an agent, or `tables`. `server` answers the browser.
The page is that of `unojax.board` with a bar around it.
Needs the extra `web`: `pip install 'unojax[web]'`.
"""
