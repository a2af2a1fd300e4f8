FROM golang:1.26.0-bookworm AS build
RUN CGO_ENABLED=0 GOBIN=/out go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM busybox:1.37.0
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/versitygw /versitygw
RUN ln -s /bin/wget /usr/bin/wget || true
ENTRYPOINT ["/versitygw"]
