# The fleet of Smena with the shop's actors: one image for every role and for the migrations.
# For actors of your own change what is installed for them, and COPY their folder.

# The version for which constraints.txt is complete.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY constraints.txt LICENSE ./
COPY packaging/ packaging/
COPY smena/ smena/
COPY sharding/ sharding/
COPY workers/ workers/
RUN pip install --constraint constraints.txt hatchling
RUN pip wheel --no-deps --no-build-isolation --wheel-dir wheels ./packaging/smena ./packaging/fleet
# An environment without pip: what is in it is all that there will be. `httpx` and `pillow` are what the actors import.
RUN python -m venv --without-pip /opt/smena
RUN pip --python /opt/smena/bin/python install --constraint constraints.txt wheels/*.whl httpx pillow

FROM python:${PYTHON}-slim
COPY --from=build /opt/smena /opt/smena
ENV PATH=/opt/smena/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp
# The folder that roles start in: `actors` is imported from here.
WORKDIR /app
COPY actors/ actors/
RUN python -m compileall -q actors
# A number, so that Kubernetes can see that it is not root; it needs no name and no home.
USER 10001:10001
EXPOSE 9191
STOPSIGNAL SIGTERM
ENTRYPOINT ["smena"]
CMD ["up"]
