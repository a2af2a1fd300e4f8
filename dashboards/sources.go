package dashboards

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"syscall"

	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/runs/retention"
)

// uploaded is the answer to PUT /sources/{digest}.
type uploaded struct {
	Digest storage.Digest `json:"digest"`
}

func sourceDigest(r *http.Request) (storage.Digest, error) {
	digest, err := storage.ParseDigest(r.PathValue("digest"))
	if err != nil {
		return digest, fmt.Errorf("source %w: %w", control.ErrInput, err)
	}
	return digest, nil
}

func (s *Server) hasSource(w http.ResponseWriter, r *http.Request) error {
	digest, err := sourceDigest(r)
	if err != nil {
		return err
	}
	there, err := s.api.HasSource(r.Context(), digest)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("source %s: %w", digest.Short(), storage.ErrNotFound)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// putSource keeps the upload in a file until its digest is verified: a
// truncated upload never reaches the store.
func (s *Server) putSource(w http.ResponseWriter, r *http.Request) error {
	want, err := sourceDigest(r)
	if err != nil {
		return err
	}
	if r.ContentLength > s.options.MaxSourceBytes {
		return fmt.Errorf("source of %d bytes %w: the limit is %d bytes", r.ContentLength, ErrTooLarge, s.options.MaxSourceBytes)
	}
	file, err := tempfiles.OpenFile(s.options.TempDir, "coalmine-upload-")
	if err != nil {
		return fmt.Errorf("upload of source %s: %w", want.Short(), err)
	}
	defer file.Close()
	got, err := receive(file, newFlow(w, http.MaxBytesReader(w, r.Body, s.options.MaxSourceBytes)))
	if err != nil {
		return fmt.Errorf("upload of source %s: %w", want.Short(), err)
	}
	if got != want {
		return fmt.Errorf("upload of source %s %w: the received data has digest %s; send it again", want.Short(), control.ErrInput, got.Short())
	}
	if got, err = s.api.PutSource(r.Context(), file); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, uploaded{got})
	return nil
}

// receive copies a body to a file and digests it. It distinguishes an invalid body from a full disk.
func receive(file io.Writer, body io.Reader) (storage.Digest, error) {
	h := sha256.New()
	read := &readError{Reader: body}
	_, err := io.Copy(io.MultiWriter(file, h), read)
	switch {
	case read.err != nil:
		return storage.Digest{}, bodyError(read.err)
	case errors.Is(err, syscall.ENOSPC):
		return storage.Digest{}, fmt.Errorf("temporary files: %w: %w", storage.ErrFull, err)
	}
	return storage.Digest(h.Sum(nil)), err
}

// readError keeps the error of reading.
type readError struct {
	io.Reader
	err error
}

func (r *readError) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != io.EOF {
		r.err = err
	}
	return n, err
}

// Events of a collection for clients that want to see its progress.
const (
	progressEvent = "progress" // a deletion
	doneEvent     = "done"     // the retention.Result; the last event
	failedEvent   = "failed"   // an errorBody; the last event
)

const eventStream = "text/event-stream"

// deletion is the progress of a collection.
type deletion struct {
	Deleted int `json:"deleted"`
	Of      int `json:"of"`
}

// collect answers when the collection is over; it ends early if the client
// disconnects. Clients that accept events get one for each batch.
func (s *Server) collect(w http.ResponseWriter, r *http.Request) error {
	var o control.CollectOptions
	if err := readJSON(w, r, maxSteerBytes, &o); err != nil {
		return err
	}
	out := &collectionStream{flow: newFlow(w, nil), accepted: strings.Contains(r.Header.Get("Accept"), eventStream)}
	o.Progress = out.progress
	collected, err := s.api.Collect(r.Context(), o)
	if err == nil {
		total := collected.Total()
		s.options.Log.Info("garbage collected", slog.Bool("dry-run", o.DryRun), slog.Int("objects", total.Objects), slog.Int64("bytes", total.Bytes))
	}
	switch {
	case err != nil && out.begun:
		out.send(failedEvent, errorBody{err.Error(), kindOf(err).kind})
	case err != nil:
		return err
	case out.begun:
		out.send(doneEvent, collected)
	default:
		writeJSON(w, http.StatusOK, collected)
	}
	return nil
}

// collectionStream sends events from the first progress on; before that, any answer can be sent.
type collectionStream struct {
	*flow
	accepted, begun bool
}

func (c *collectionStream) progress(deleted, total int) {
	if !c.accepted {
		return
	}
	if !c.begun {
		c.begun = true
		c.w.Header().Set("Content-Type", eventStream)
		c.w.Header().Set("X-Accel-Buffering", "no") // a proxy must not wait for more
	}
	c.send(progressEvent, deletion{deleted, total})
}

// send sends an event. If the client has disconnected, the collection ends with its request.
func (c *collectionStream) send(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		kind, data = failedEvent, []byte(`{"error":"the answer cannot be encoded","kind":"internal"}`)
	}
	c.push(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, data))
}

func (c *Client) Collect(ctx context.Context, o control.CollectOptions) (*retention.Result, error) {
	request, err := collect.posting(ctx, c, nil, o)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", eventStream+", application/json")
	response, err := c.send(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer retention.Result
	if !strings.HasPrefix(response.Header.Get("Content-Type"), eventStream) {
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			return nil, c.broken(err)
		}
		return &answer, nil
	}
	err = readEvents(response.Body, func(kind, data string) error {
		return c.takeCollection(kind, data, o.Progress, &answer)
	})
	if answered, ok := errors.AsType[*Error](err); ok {
		return nil, answered
	}
	if !errors.Is(err, errOver) {
		return nil, c.broken(err)
	}
	return &answer, nil
}

// takeCollection processes one event. errOver reports that the answer is complete.
func (c *Client) takeCollection(kind, data string, progress func(deleted, of int), answer *retention.Result) error {
	switch kind {
	case progressEvent:
		var d deletion
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			return err
		}
		if progress != nil {
			progress(d.Deleted, d.Of)
		}
	case doneEvent:
		if err := json.Unmarshal([]byte(data), answer); err != nil {
			return err
		}
		return errOver
	case failedEvent:
		var body errorBody
		if err := json.Unmarshal([]byte(data), &body); err != nil {
			return err
		}
		return named(&Error{Status: http.StatusOK, Kind: body.Kind, Message: body.Error})
	}
	return nil
}
