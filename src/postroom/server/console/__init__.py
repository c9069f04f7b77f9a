"""The web console: pages for people, made by the broker itself and served beside its API.

A page is HTML, made in the thread that serves HTTP; what it shows and does goes through the management node
in the name of who has signed in, so that it can do what its user may do and no more. It stands on the room
`http`; jinja2 is imported with the first page, so that a broker starts as fast without.

- `parts`: what `http_service` gets of it; `routes`: paths, refusals, headers
- `visit`: one request of a page; `page`: what a page is; `actions`: what can be done from it, once confirmed
- `templating`, `static_files`, `formats`: how pages are made; `listing`: tables with search, order and pages
- `live`: figures that follow; `samples`: figures over time
- `pages`: the pages; `templates`, `static`: their HTML, style and script
"""
