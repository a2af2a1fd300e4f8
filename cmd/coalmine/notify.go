package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"

	"coalmine/internal/goroutines"
	"coalmine/workflows/results"
)

// notifier calls a web hook when a run ends. Because the address of a web hook is usually secret,
// messages contain only its host.
type notifier struct {
	address string
	// pause is the time before the second try; it doubles with each further one.
	pause time.Duration
}

// notifyVariable sets the address without showing it in the list of processes.
const notifyVariable = "COALMINE_NOTIFY_URL"

func (n *notifier) flag(f *pflag.FlagSet) {
	n.pause = time.Second
	f.StringVar(&n.address, "notify", os.Getenv(notifyVariable), "http or https URL to which the outcome is POSTed as JSON at the end of the run ("+notifyVariable+")")
	f.Lookup("notify").DefValue = "" // --help shows no secrets
}

// check rejects an invalid address before the run starts.
func (n *notifier) check() error {
	if n.address == "" {
		return nil
	}
	if u, err := url.Parse(n.address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("--notify (" + notifyVariable + "): expected a URL that begins with http:// or https:// and a host")
	}
	return nil
}

// notification is the body of the POST. Fields may be added, never renamed.
type notification struct {
	Run        string `json:"run"`
	Experiment string `json:"experiment"`
	// State is done, or failed if a cell is not done.
	State string `json:"state"`
	// Exit is the exit status of the command.
	Exit int `json:"exit"`
	// Gate is failed if a cell exceeds a limit of audit.fail_if, met if all are within their limits.
	Gate  string             `json:"gate,omitempty"`
	Cells []notificationCell `json:"cells"`
	Gates []notificationGate `json:"gates"`
}

type notificationCell struct {
	Cell  string `json:"cell"`
	Label string `json:"label"`
	State string `json:"state"`
	// Status equals State, for programs that use its older name.
	Status string `json:"status"`
}

type notificationGate struct {
	Cell   string `json:"cell"`
	Breach string `json:"breach"`
}

func newNotification(r *results.Results, exit int) notification {
	n := notification{
		Run: r.Run, Experiment: r.Experiment, State: results.Done, Exit: exit, Gate: r.Gate(),
		Cells: []notificationCell{}, Gates: []notificationGate{},
	}
	for _, c := range r.Cells {
		n.Cells = append(n.Cells, notificationCell{c.Cell, c.Label, c.Status, c.Status})
		if c.Status != results.Done {
			n.State = results.Failed
		}
		for _, b := range c.Breaches {
			n.Gates = append(n.Gates, notificationGate{c.Cell, b})
		}
	}
	return n
}

// Limits of a notification, so that it does not delay the command for long.
const (
	notifyTries   = 3
	notifyTimeout = 10 * time.Second // per try
)

// send calls the web hook, if there is one. A failure is noted and does not affect the command's
// exit status.
func (n *notifier) send(ctx context.Context, g *global, r *results.Results, exit int) {
	if n.address == "" {
		return
	}
	body, err := json.Marshal(newNotification(r, exit))
	if err == nil {
		var again bool
		_ = goroutines.Retries{Tries: notifyTries, Pause: n.pause}.Retry(ctx, func() error {
			again, err = n.post(ctx, body)
			return err
		}, func(error) (bool, time.Duration) { return again, 0 }) // err is that of the last post
	}
	if err != nil {
		u, _ := url.Parse(n.address)
		g.note("warning: --notify: %s did not receive the outcome: %v", u.Host, err)
	}
}

// post reports whether to try again.
func (n *notifier) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.address, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL is invalid")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "coalmine/"+version())
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return true, wrapped.Err // without the URL
	}
	if err != nil {
		return true, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return false, nil
	}
	again = response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusRequestTimeout
	return again, fmt.Errorf("it answered %s", response.Status)
}
