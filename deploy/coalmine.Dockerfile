# Context: the root of the repository. Its .git gives the binary its version.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build

FROM busybox:1.37.0-musl
RUN adduser -D -H -u 65532 coalmine && mkdir /cache && chown coalmine: /cache
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/coalmine /coalmine
USER 65532:65532
ENTRYPOINT ["/coalmine"]
