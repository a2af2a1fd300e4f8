package dashboards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
)

// Errors of the server. The client returns them, too.
var (
	// ErrUnauthorized: no valid token came with the request.
	ErrUnauthorized = errors.New("missing or invalid token: give --token-file, set COALMINE_TOKEN, or log in")
	// ErrForbidden: the token permits only reading.
	ErrForbidden = errors.New("the token allows only reading; this needs the operator token")
	// ErrTooLarge: the body is larger than the server accepts.
	ErrTooLarge = errors.New("too large")
)

// errorKind is the transferred form of an error: the client converts the kind
// to the error, so that errors.Is works on both sides.
type errorKind struct {
	kind   string
	status int
	err    error
}

// errorKinds are in order of precedence: an error may wrap several.
var errorKinds = []errorKind{
	{"unauthorized", http.StatusUnauthorized, ErrUnauthorized},
	{"forbidden", http.StatusForbidden, ErrForbidden},
	{"too-large", http.StatusRequestEntityTooLarge, ErrTooLarge},
	{"no-run", http.StatusNotFound, control.ErrNoRun},
	{"no-worker", http.StatusNotFound, control.ErrNoWorker},
	{"ambiguous", http.StatusBadRequest, control.ErrAmbiguous},
	{"input", http.StatusBadRequest, control.ErrInput},
	{"experiment", http.StatusUnprocessableEntity, control.ErrExperiment},
	{"state", http.StatusConflict, runs.ErrState},
	{"key", http.StatusConflict, control.ErrKey},
	{"standby", http.StatusConflict, leadership.ErrStandby},
	{"led", http.StatusConflict, leadership.ErrLed},
	{"name", http.StatusBadRequest, storage.ErrName},
	{"not-found", http.StatusNotFound, storage.ErrNotFound},
	{"exists", http.StatusConflict, storage.ErrExists},
	{"corrupt", http.StatusInternalServerError, storage.ErrCorrupt},
	{"newer", http.StatusNotImplemented, storage.ErrNewer},
	{"full", http.StatusInsufficientStorage, storage.ErrFull},
	{"away", http.StatusServiceUnavailable, storage.ErrAway},
	{"unsuitable", http.StatusInternalServerError, storage.ErrUnsuitable},
	{"unknown", http.StatusInternalServerError, storage.ErrUnknown},
	{"cancelled", http.StatusServiceUnavailable, context.Canceled},
	{"timeout", http.StatusGatewayTimeout, context.DeadlineExceeded},
}

// internalError is the kind of all other errors.
var internalError = errorKind{kind: "internal", status: http.StatusInternalServerError}

func kindOf(err error) errorKind {
	if goroutines.IsPanic(err) {
		return internalError // even if it wraps ErrInput: the input may be right
	}
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			return k
		}
	}
	return internalError
}

// ErrorKind returns the kind that the API's answers give an error, "" for an internal error.
func ErrorKind(err error) string {
	if k := kindOf(err); k.kind != internalError.kind {
		return k.kind
	}
	return ""
}

// kindHeader holds the kind of an error, like the body, because the answer to HEAD has no body.
const kindHeader = "Coalmine-Error"

// errorBody is the JSON of every error.
type errorBody struct {
	Error string `json:"error"`
	Kind  string `json:"kind"`
}

func writeError(w http.ResponseWriter, k errorKind, message string) {
	if k.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="coalmine"`)
	}
	w.Header().Set(kindHeader, k.kind)
	w.Header().Del("Content-Disposition")
	writeJSON(w, k.status, errorBody{secrets.RedactPasswords(message), k.kind})
}

// writeJSON answers with one JSON object. A v that cannot be encoded is a bug;
// a client that has disconnected is not an error.
func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded","kind":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// readJSON reads a body that is one JSON value of at most limit bytes, without unknown fields.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if err := expectJSON(r); err != nil {
		return err
	}
	return decodeJSON(r, http.MaxBytesReader(w, r.Body, limit), into)
}

// decodeJSON reads the body of r, one JSON value without unknown fields.
func decodeJSON(r *http.Request, body io.Reader, into any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("unexpected data after the JSON object")
		}
	}
	if stamp := formatOf(r.Header); err != nil && stamp.Build != "" {
		err = requestFormat.Explain(stamp, err)
	}
	return bodyError(err)
}

const jsonType = "application/json"

func expectJSON(r *http.Request) error {
	if contentType(r) != jsonType {
		return fmt.Errorf("body %w: Content-Type is %q, expected application/json", control.ErrInput, r.Header.Get("Content-Type"))
	}
	return nil
}

// contentType returns the media type of a request's body, "" if it has none.
func contentType(r *http.Request) string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// bodyError explains an invalid body: its size, or its content.
func bodyError(err error) error {
	if err == nil {
		return nil
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("body %w: the limit is %d bytes", ErrTooLarge, tooLarge.Limit)
	}
	return fmt.Errorf("body %w: %w", control.ErrInput, err)
}

// flow lets a transfer last as long as bytes move: each read and each write has its own deadline.
type flow struct {
	w       http.ResponseWriter
	body    io.Reader
	control *http.ResponseController
}

// newFlow removes the deadlines of the whole request, which would end the context of a long request.
func newFlow(w http.ResponseWriter, body io.Reader) *flow {
	f := &flow{w, body, http.NewResponseController(w)}
	_ = f.control.SetReadDeadline(time.Time{}) // if unsupported, there is no deadline
	_ = f.control.SetWriteDeadline(time.Time{})
	return f
}

// Read reads from the body. At its end no deadline is left.
func (f *flow) Read(p []byte) (int, error) {
	_ = f.control.SetReadDeadline(time.Now().Add(flowTimeout))
	n, err := f.body.Read(p)
	if err != nil {
		_ = f.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// flowChunk is the minimum number of bytes within one flowTimeout.
const flowChunk = 256 << 10

// Write sends p piece by piece.
func (f *flow) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		piece := p[:min(len(p), flowChunk)]
		_ = f.control.SetWriteDeadline(time.Now().Add(flowTimeout))
		n, err := f.w.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		p = p[len(piece):]
	}
	return written, nil
}

// formatHeader holds the format of a request or an answer and the build of its sender: "1 v0.4.0".
// Older builds and other programs omit it.
const formatHeader = "Coalmine-Format"

// requestFormat and answerFormat have the format number of the API's JSON. It rises when an older
// program could misread an answer, or an older server a request; new members do not raise it.
var (
	requestFormat = storage.Format{Name: "request", Number: 1}
	answerFormat  = storage.Format{Name: "answer of the server", Number: requestFormat.Number}
)

func setFormat(h http.Header) { h.Set(formatHeader, answerFormat.Stamp().String()) }

// formatOf returns the stamp of a message, zero if it has none.
func formatOf(h http.Header) storage.Stamp { return storage.ParseStamp(h.Get(formatHeader)) }

// choiceHeader holds a name that fits several runs, the chosen run, and the number of matches.
const choiceHeader = "Coalmine-Chosen"

func setChoice(h http.Header, c control.Choice) {
	h.Set(choiceHeader, fmt.Sprintf("%s %s %d", c.Name, c.Run, c.Fits)) // names are the beginnings of ids
}

// readChoice reads the header of setChoice, if present.
func readChoice(h http.Header) (c control.Choice, there bool) {
	_, err := fmt.Sscanf(h.Get(choiceHeader), "%s %s %d", &c.Name, &c.Run, &c.Fits)
	return c, err == nil
}
