"""Choose one process among many to lead a duty (guarantee 3): `Election` is the contract, one backend a file.

`Leadership` is the service that campaigns, renews and says under which term this process leads. A leader that does
not know yet that it was relieved cannot be ruled out by any of them (docs/discussion/leadership.md): what it
writes ends with the fence of `smena.store.terms`.
"""
