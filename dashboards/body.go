package dashboards

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"coalmine/storage"
	"coalmine/workflows/control"
)

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
			err = errors.New("there is something after the JSON object")
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
		return fmt.Errorf("body %w: at most %d bytes are taken", ErrTooLarge, tooLarge.Limit)
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
