package dashboards

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"coalmine/internal/goroutines"
)

// vigilance bounds the silence of a server. An answer may take minutes, so the client probes a
// silent server before it gives up the request.
type vigilance struct {
	silence time.Duration // silence after which another request probes the server
	probe   time.Duration // timeout of a probe
	longest time.Duration // silence after which a request is given up in any case
}

var liveVigilance = vigilance{silence: 20 * time.Second, probe: 10 * time.Second, longest: 15 * time.Minute}

// vigil watches one request from its sending to the end of its answer.
type vigil struct {
	client *Client
	moved  atomic.Int64 // when a byte last moved, in Unix nanoseconds
	hangUp context.CancelCauseFunc
}

// keepVigil returns a request that fails when the server falls silent, and its vigil. The
// caller MUST call end.
func (c *Client) keepVigil(request *http.Request) (*http.Request, *vigil) {
	ctx, hangUp := context.WithCancelCause(request.Context())
	v := &vigil{client: c, hangUp: hangUp}
	v.move()
	request = request.WithContext(ctx)
	if request.Body != nil && request.Body != http.NoBody {
		request.Body = &vigilantBody{request.Body, v, func() {}} // the transport closes it when it is sent
	}
	go v.watch(ctx)
	return request, v
}

func (v *vigil) move() { v.moved.Store(time.Now().UnixNano()) }

func (v *vigil) end() { v.hangUp(nil) }

// watch gives the request up once the server is silent and does not answer a probe.
func (v *vigil) watch(ctx context.Context) {
	limits := v.client.vigilance
	asked := time.Duration(0) // the silence at the last probe
	for {
		silent := time.Since(time.Unix(0, v.moved.Load()))
		switch {
		case silent < asked:
			asked = 0 // a byte has moved since
		case silent >= limits.longest:
			v.hangUp(fmt.Errorf("server %s has sent nothing for %v, though it answers other requests; its log may say why", v.client.base, silent.Round(time.Second)))
			return
		case silent >= asked+limits.silence:
			asked = silent
			if err := v.client.alive(ctx); err != nil {
				v.hangUp(fmt.Errorf("server %s has accepted the request, but has sent nothing for %v and does not answer a probe: it hangs, or another program uses its port; look at its log, or restart it", v.client.base, silent.Round(time.Second)))
				return
			}
		}
		if goroutines.Sleep(ctx, limits.silence/4) != nil {
			return
		}
	}
}

// alive probes the server. An answer by a proxy in its place does not count.
func (c *Client) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.vigilance.probe)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath(healthPath).String(), nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}

// vigilantBody reports the bytes of a body to a vigil.
type vigilantBody struct {
	io.ReadCloser
	vigil  *vigil
	closed func()
}

func (b *vigilantBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.vigil.move()
	}
	return n, err
}

func (b *vigilantBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// answerBody is the body of an answer. If the vigil gave the request up, reads return the vigil's
// error.
type answerBody struct {
	vigilantBody
	ctx context.Context
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.vigilantBody.Read(p)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}
