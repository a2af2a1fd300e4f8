# versitygw, an S3 server over a directory. The version is the one that the tests
# build (scripts/setup.sh).
FROM golang:1.26.8-bookworm AS build
RUN CGO_ENABLED=0 GOBIN=/out go install -trimpath github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM busybox:1.37.0-musl
RUN adduser -D -H -u 65532 s3 && mkdir /data && chown s3: /data
COPY --from=build /out/versitygw /versitygw
USER 65532:65532
ENTRYPOINT ["/versitygw"]
