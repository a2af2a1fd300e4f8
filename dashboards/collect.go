package dashboards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"coalmine/workflows/control"
	"coalmine/workflows/runs/retention"
)

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

// collectionStream sends events from the first progress on; before that, any
// answer can be sent.
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

// send sends an event. If the client has disconnected, the collection ends with its
// request.
func (c *collectionStream) send(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		kind, data = failedEvent, []byte(`{"error":"the answer cannot be encoded","kind":"internal"}`)
	}
	c.push(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, data))
}

// Collect implements control.API.
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

// takeCollection processes one event. errOver reports that the answer is
// complete.
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
