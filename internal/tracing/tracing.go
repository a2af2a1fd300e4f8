// Package tracing sends traces of the work, across processes, to an OpenTelemetry collector. It is off
// unless the environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT), and then it costs nothing: a
// nil *Tracer makes zero Spans, whose methods do nothing.
//
//	round                     the coordinator: a round, or a task of its own
//	├─ attempt                from sending it until its report
//	│  ├─ enqueue             the way into the queue
//	│  └─ run                 a worker: from taking it until its outcome
//	│     └─ commit
//	└─ attempt ...
//
// A trace is no longer than a round, so that a training of thousands of rounds is divided into pieces
// that a viewer can show; each links to the one before it.
//
// Only the envelope of an attempt carries a trace. Keys, parameters and bytes do not contain it.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes spans and sends them. A nil Tracer is off.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// The variables of OpenTelemetry's specification that enable traces; its other variables
// (OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES, ...) also apply.
const (
	endpointVariable       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVariable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// Open returns the tracer that the environment requests, or nil without a request. service names the
// part of the program; errors of sending are logged to log.
func Open(ctx context.Context, service, version string, log *slog.Logger) (*Tracer, error) {
	asked, err := asked()
	if !asked || err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces were not sent", "error", err) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracer{provider, provider.Tracer("coalmine")}, nil
}

// asked reports whether the environment requests traces, and returns an error
// for requests that cannot be met.
func asked() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false, nil
	}
	asked := false
	for _, name := range []string{endpointVariable, tracesEndpointVariable} {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		asked = true
		// The error omits the value, which may contain a password.
		if u, err := url.Parse(value); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return false, fmt.Errorf("traces: invalid URL %s: expected http:// or https://, such as http://localhost:4318", name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if value := os.Getenv(name); asked && value != "" && value != "http/protobuf" {
			return false, fmt.Errorf("traces: %s is %q: only http/protobuf is spoken here, on port 4318 as a rule", name, value)
		}
	}
	return asked, nil
}

// closeTimeout limits the sending of the last spans.
const closeTimeout = 5 * time.Second

// Close sends the remaining spans.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("traces: %w", err)
	}
	return nil // a collector that does not answer does not fail the work
}

// Root begins a trace at the given time, with a link to before if that is on.
func (t *Tracer) Root(name string, began time.Time, before Span) Span {
	if t == nil {
		return Span{}
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(began)}
	if before.On() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: before.span.SpanContext()}))
	}
	return t.start(context.Background(), name, options...)
}

// propagator encodes a span's identity as W3C Trace Context.
var propagator = propagation.TraceContext{}

const traceparent = "traceparent"

// Continue begins a span below the span of another process that Envelope encoded;
// without a parent if envelope is empty or invalid.
func (t *Tracer) Continue(envelope, name string) Span {
	if t == nil {
		return Span{}
	}
	ctx := propagator.Extract(context.Background(), propagation.MapCarrier{traceparent: envelope})
	return t.start(ctx, name, trace.WithSpanKind(trace.SpanKindConsumer))
}

func (t *Tracer) start(ctx context.Context, name string, options ...trace.SpanStartOption) Span {
	_, span := t.tracer.Start(ctx, name, options...)
	return Span{t, span}
}

// Span is work in progress. The zero Span is off: it does nothing.
type Span struct {
	tracer *Tracer
	span   trace.Span
}

// On reports whether the span is recorded. Costly attributes are computed only then.
func (s Span) On() bool { return s.span != nil }

// Child begins a span below this one.
func (s Span) Child(name string) Span {
	if !s.On() {
		return Span{}
	}
	return s.tracer.start(trace.ContextWithSpan(context.Background(), s.span), name)
}

// Envelope returns the input of Continue in another process; empty if the span is off.
func (s Span) Envelope() string {
	if !s.On() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(trace.ContextWithSpan(context.Background(), s.span), carrier)
	return carrier[traceparent]
}

// String records a fact under the name coalmine.<key>.
func (s Span) String(key, value string) {
	if s.On() {
		s.span.SetAttributes(attribute.String("coalmine."+key, value))
	}
}

// Strings records several facts.
func (s Span) Strings(key string, values []string) {
	if s.On() {
		s.span.SetAttributes(attribute.StringSlice("coalmine."+key, values))
	}
}

// Int records a number.
func (s Span) Int(key string, value int64) {
	if s.On() {
		s.span.SetAttributes(attribute.Int64("coalmine."+key, value))
	}
}

// Fail marks the span as failed.
func (s Span) Fail(why string) {
	if s.On() {
		s.span.SetStatus(codes.Error, why)
	}
}

// End ends the span, as failed if err is not nil. A span ends once; later calls have no effect.
func (s Span) End(err error) {
	if !s.On() {
		return
	}
	if err != nil {
		s.Fail(err.Error())
	}
	s.span.End()
}
