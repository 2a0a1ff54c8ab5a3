"""Want one process more or fewer of the roles that may change in number; at least one, at most `Role.most`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from smena.telemetry import events
from workers.supervisor.crew import Crew
from workers.supervisor.post import Post, Role


class Scale:
    """How many are wanted. It lasts as long as the supervisor; settings say how many it begins with."""

    def __init__(self, crew: Crew, new_post: Callable[[Role, int], Post], leave_s: float) -> None:
        self._crew = crew
        self._new_post = new_post
        self._leave_s = leave_s

    def up(self) -> None:
        """Add a post to each such role."""
        for role, posts in self._roles():
            limit = len(posts) >= max(role.most, role.count)
            if not limit:
                self._crew.posts.append(self._new_post(role, len(posts)))
            self._tell(role, limit=limit)

    def down(self) -> None:
        """Take the last post of each such role away; who is there drains."""
        for role, posts in self._roles():
            limit = len(posts) == 1
            if not limit:
                self._crew.posts.remove(posts[-1])
                for child in self._crew.children:
                    if child.post is posts[-1] and child.leave_by_s is None:
                        self._crew.dismiss(child, self._leave_s)
            self._tell(role, limit=limit)

    def _roles(self) -> Iterator[tuple[Role, list[Post]]]:
        for role in {post.role.name: post.role for post in self._crew.posts if post.role.most}.values():
            yield role, [post for post in self._crew.posts if post.role is role]

    def _tell(self, role: Role, *, limit: bool) -> None:
        wanted = sum(post.role is role for post in self._crew.posts)
        events.emit(events.FLEET_SCALED, role=role.name, wanted=wanted, limit=limit)
