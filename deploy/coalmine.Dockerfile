FROM golang:1.26.0-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /coalmine ./cmd/coalmine

FROM gcr.io/distroless/static-debian12:nonroot-amd64
COPY --from=build /coalmine /coalmine
ENTRYPOINT ["/coalmine"]
