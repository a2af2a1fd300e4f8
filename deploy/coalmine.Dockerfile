# Context: the root of the repository. Its .git gives the binary its commit. The build runs on the
# builder's own processor and compiles for the image's, so that no emulator is needed.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
ARG TARGETOS=linux TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build && mkdir /cache

FROM busybox:1.37.0-musl
COPY --from=build --chown=65532:65532 /cache /cache
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/LICENSE /src/NOTICE /
COPY --from=build /src/coalmine /coalmine
USER 65532:65532
ENTRYPOINT ["/coalmine"]
