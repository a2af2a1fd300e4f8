package dashboards

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
	"coalmine/workflows/results/dataexport"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// Client implements control.API by requests to a Server. It may be used from
// several goroutines.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
	watch watching
	vigilance
}

var _ control.API = (*Client)(nil)

// Error is an error answer of a server. It wraps the server's error if that has
// a kind: errors.Is works as in a local call.
type Error struct {
	Status  int    // of HTTP
	Kind    string // see docs/api.md
	Message string
	err     error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.err }

// Waits of the client. The client bounds the time to find a server and its silence (see
// vigilance), not the time of its work.
const (
	dialTimeout     = 10 * time.Second
	continueTimeout = 5 * time.Second
)

// NewClient talks to the server at address: http://host:port or https://host,
// or host:port alone for plain HTTP. token may be empty. Parameters of an https
// address may name files for TLS, see package secrets.
func NewClient(address, token string) (*Client, error) {
	if address == "" {
		return nil, errors.New("there is no server address; expected http://host:port or https://host:port")
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("server address: it is none; expected http://host:port or https://host:port")
	}
	files, err := takeFiles(base)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("server address: expected http://host:port or https://host:port, and no more than ca, cert and key for parameters")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	transport.ExpectContinueTimeout = continueTimeout
	transport.TLSClientConfig = files
	return &Client{
		base: base, token: token, watch: liveWatching, vigilance: liveVigilance,
		http: &http.Client{
			Transport: transport,
			// A redirect would carry the token to another place.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// takeFiles reads the files that the parameters of an address name, and leaves the
// address without them.
func takeFiles(address *url.URL) (*tls.Config, error) {
	query := address.Query()
	files, err := secrets.TakeCertificateFiles(query)
	if err != nil {
		return nil, err
	}
	address.RawQuery = query.Encode()
	if address.Scheme != "https" && files != (secrets.CertificateFiles{}) {
		return nil, secrets.ErrPlain
	}
	return files.Config()
}

// String is the server's address.
func (c *Client) String() string { return c.base.String() }

// HasSource implements control.API.
func (c *Client) HasSource(ctx context.Context, digest storage.Digest) (bool, error) {
	response, err := c.do(ctx, http.MethodHead, c.path("sources", digest.String()))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("source %s: %w", digest.Short(), err)
	}
	return true, response.Body.Close()
}

// PutSource implements control.API. It reads the body once for its digest and,
// unless the server has it, once more to send it.
func (c *Client) PutSource(ctx context.Context, body io.ReadSeeker) (storage.Digest, error) {
	h := sha256.New()
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return storage.Digest{}, fmt.Errorf("reading the source: %w", err)
	}
	size, err := io.Copy(h, body)
	if err != nil {
		return storage.Digest{}, fmt.Errorf("reading the source: %w", err)
	}
	digest := storage.Digest(h.Sum(nil))
	if there, err := c.HasSource(ctx, digest); there || err != nil {
		return digest, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return digest, fmt.Errorf("reading the source: %w", err)
	}
	return digest, c.upload(ctx, digest, body, size)
}

func (c *Client) upload(ctx context.Context, digest storage.Digest, body io.Reader, size int64) error {
	request, err := c.request(ctx, http.MethodPut, c.path("sources", digest.String()), io.LimitReader(body, size))
	if err != nil {
		return err
	}
	request.ContentLength = size
	request.Header.Set("Expect", "100-continue") // a refusal comes before the data goes
	var answer uploaded
	if err := c.roundTrip(request, &answer); err != nil {
		return fmt.Errorf("uploading source %s: %w", digest.Short(), err)
	}
	if answer.Digest != digest {
		return fmt.Errorf("uploading source %s: %w: the server stored %s", digest.Short(), storage.ErrCorrupt, answer.Digest.Short())
	}
	return nil
}

// Submit implements control.API.
func (c *Client) Submit(ctx context.Context, spec runs.Spec, fresh bool) (control.Submitted, error) {
	target := c.path("runs")
	target.RawQuery = url.Values{"fresh": {strconv.FormatBool(fresh)}}.Encode()
	var answer control.Submitted
	return answer, c.post(ctx, target, spec, &answer)
}

// SubmitFile implements control.API.
func (c *Client) SubmitFile(ctx context.Context, file control.File, fresh bool) (control.Submitted, error) {
	target := c.path("runs")
	query := url.Values{"fresh": {strconv.FormatBool(fresh)}, "name": {file.Name}, "set": file.Sets}
	if file.Priority != nil {
		query.Set("priority", strconv.Itoa(*file.Priority))
	}
	target.RawQuery = query.Encode()
	var answer control.Submitted
	request, err := c.request(ctx, http.MethodPost, target, bytes.NewReader(file.Text))
	if err != nil {
		return answer, err
	}
	request.Header.Set("Content-Type", fileType)
	return answer, c.roundTrip(request, &answer)
}

// List implements control.API.
func (c *Client) List(ctx context.Context) ([]*status.Run, error) {
	var answer runList
	err := c.get(ctx, c.path("runs"), &answer)
	return answer.Runs, err
}

// Status implements control.API.
func (c *Client) Status(ctx context.Context, run string) (*status.Run, error) {
	var status status.Run
	if err := c.get(ctx, c.runPath(run), &status); err != nil {
		return nil, err
	}
	return &status, nil
}

// Steer implements control.API.
func (c *Client) Steer(ctx context.Context, run string, e runs.Entry) (string, error) {
	var answer steered
	err := c.post(ctx, c.runPath(run, "steer"), e, &answer)
	return answer.Run, err
}

// Remove implements control.API.
func (c *Client) Remove(ctx context.Context, run string) (*control.Removed, error) {
	request, err := c.request(ctx, http.MethodDelete, c.runPath(run), nil)
	if err != nil {
		return nil, err
	}
	var answer control.Removed
	if err := c.roundTrip(request, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Workers implements control.API.
func (c *Client) Workers(ctx context.Context) (*status.Fleet, error) {
	var answer status.Fleet
	if err := c.get(ctx, c.path("workers"), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Drain implements control.API.
func (c *Client) Drain(ctx context.Context, worker string) ([]string, error) {
	var answer drained
	err := c.post(ctx, c.path("workers", worker, "drain"), struct{}{}, &answer)
	return answer.Workers, err
}

// Experiment implements control.API.
func (c *Client) Experiment(ctx context.Context, run string) (*experiment.Spec, error) {
	var answer experiment.Spec
	if err := c.get(ctx, c.runPath(run, "experiment"), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Results implements control.API.
func (c *Client) Results(ctx context.Context, run string) (*results.Results, error) {
	var answer results.Results
	if err := c.get(ctx, c.runPath(run, "results"), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Rounds implements control.API.
func (c *Client) Rounds(ctx context.Context, run string) (*results.Rounds, error) {
	var answer results.Rounds
	target := c.runPath(run, "results")
	target.RawQuery = url.Values{"rows": {string(results.RoundRows)}}.Encode()
	if err := c.get(ctx, target, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Curve implements control.API.
func (c *Client) Curve(ctx context.Context, run, cell string, points int) (*results.Curve, error) {
	target := c.runPath(run, "cells", cell, "curve")
	target.RawQuery = url.Values{"points": {strconv.Itoa(points)}}.Encode()
	var answer results.Curve
	if err := c.get(ctx, target, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Canaries implements control.API.
func (c *Client) Canaries(ctx context.Context, run, cell string, points int) (*results.CanaryLives, error) {
	target := c.runPath(run, "cells", cell, "canaries")
	target.RawQuery = url.Values{"points": {strconv.Itoa(points)}}.Encode()
	var answer results.CanaryLives
	if err := c.get(ctx, target, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Surroundings implements control.API.
func (c *Client) Surroundings(ctx context.Context, run, cell string, canary, round int) (*control.Surroundings, error) {
	target := c.runPath(run, "cells", cell, "canaries", strconv.Itoa(canary), "references")
	if round != control.LastRound {
		target.RawQuery = url.Values{"round": {strconv.Itoa(round)}}.Encode()
	}
	var answer control.Surroundings
	if err := c.get(ctx, target, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// History implements control.API.
func (c *Client) History(ctx context.Context, run string) (*control.History, error) {
	var answer control.History
	if err := c.get(ctx, c.runPath(run, "history"), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Model implements control.API.
func (c *Client) Model(ctx context.Context, run, cell string, round int) ([]byte, error) {
	target := c.runPath(run, "model")
	if cell != "" {
		target = c.runPath(run, "cells", cell, "model")
	}
	switch round {
	case control.LastRound:
	case control.NewestRound:
		target.RawQuery = url.Values{"round": {newestRound}}.Encode()
	default:
		target.RawQuery = url.Values{"round": {strconv.Itoa(round)}}.Encode()
	}
	return c.getFile(ctx, target)
}

// Prepared implements control.API.
func (c *Client) Prepared(ctx context.Context, run, cell, name string) ([]byte, error) {
	target := c.runPath(run, "prepared", name)
	if cell != "" {
		target = c.runPath(run, "cells", cell, "prepared", name)
	}
	return c.getFile(ctx, target)
}

// getFile returns an answer unchanged.
func (c *Client) getFile(ctx context.Context, target *url.URL) ([]byte, error) {
	response, err := c.do(ctx, http.MethodGet, target)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, c.broken(err)
	}
	return data, nil
}

// Data implements control.API.
func (c *Client) Data(ctx context.Context, run, cell string, table dataexport.Table, format dataexport.Format, w io.Writer) error {
	target := c.runPath(run, "data", string(table))
	if cell != "" {
		target = c.runPath(run, "cells", cell, "data", string(table))
	}
	target.RawQuery = url.Values{"format": {string(format)}}.Encode()
	response, err := c.do(ctx, http.MethodGet, target)
	if err != nil {
		return err
	}
	written := &countedWriter{w: w}
	_, err = io.Copy(written, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil && written.err == nil {
		return c.broken(err)
	}
	return written.err
}

// Nodes implements control.API.
func (c *Client) Nodes(ctx context.Context, run string, which control.NodeQuery) ([]control.Node, error) {
	target := c.runPath(run, "nodes")
	if which.Cell != "" {
		target = c.runPath(run, "cells", which.Cell, "nodes")
	}
	if changes := which.Changes; changes != nil {
		target.RawQuery = url.Values{"keys": {strings.Join(changes.Keys, ",")}, "after": {strconv.Itoa(changes.After)}}.Encode()
	}
	var answer nodeList
	err := c.get(ctx, target, &answer)
	return answer.Nodes, err
}

// Lineage implements control.API.
func (c *Client) Lineage(ctx context.Context, run, cell, key string) (*control.Lineage, error) {
	var answer control.Lineage
	if err := c.get(ctx, c.runPath(run, "cells", cell, "nodes", key), &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Spending implements control.API.
func (c *Client) Spending(ctx context.Context, run, cell string) (control.Spending, error) {
	var answer control.Spending
	err := c.get(ctx, c.runPath(run, "cells", cell, "privacy"), &answer)
	return answer, err
}

// Logs implements control.API.
func (c *Client) Logs(ctx context.Context, run, node string) ([]control.AttemptLog, error) {
	target := c.runPath(run, "logs")
	target.RawQuery = url.Values{"node": {node}}.Encode()
	var answer runLog
	err := c.get(ctx, target, &answer)
	return answer.Logs, err
}

// path is an address of the API; segments are escaped.
func (c *Client) path(segments ...string) *url.URL {
	escaped := []string{"api", "v1"}
	for _, s := range segments {
		escaped = append(escaped, url.PathEscape(s))
	}
	return c.base.JoinPath(escaped...)
}

func (c *Client) runPath(run string, segments ...string) *url.URL {
	return c.path(append([]string{"runs", cmp.Or(run, control.Latest)}, segments...)...)
}

func (c *Client) get(ctx context.Context, target *url.URL, into any) error {
	request, err := c.request(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	return c.roundTrip(request, into)
}

func (c *Client) post(ctx context.Context, target *url.URL, body, into any) error {
	request, err := c.postRequest(ctx, target, body)
	if err != nil {
		return err
	}
	return c.roundTrip(request, into)
}

func (c *Client) postRequest(ctx context.Context, target *url.URL, body any) (*http.Request, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", target, err)
	}
	request, err := c.request(ctx, http.MethodPost, target, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

func (c *Client) do(ctx context.Context, method string, target *url.URL) (*http.Response, error) {
	request, err := c.request(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	return c.send(request)
}

func (c *Client) request(ctx context.Context, method string, target *url.URL, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", target, err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	setFormat(request.Header)
	return request, nil
}

// roundTrip sends a request and decodes the JSON of its answer.
func (c *Client) roundTrip(request *http.Request, into any) error {
	response, err := c.send(request)
	if err != nil {
		return err
	}
	err = json.NewDecoder(response.Body).Decode(into)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return c.broken(err)
	}
	return nil
}

// Ready asks whether the server does its work.
func (c *Client) Ready(ctx context.Context) error {
	request, err := c.request(ctx, http.MethodGet, c.base.JoinPath(readyPath), nil)
	if err != nil {
		return err
	}
	response, err := c.answer(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("server %s is not ready: %w", c.base, c.readError(response))
	}
	return nil
}

// answer returns the server's response. The caller closes its body.
func (c *Client) answer(request *http.Request) (*http.Response, error) {
	watched, vigil := c.keepVigil(request)
	response, err := c.http.Do(watched)
	if err == nil {
		response.Body = &answerBody{vigilantBody{response.Body, vigil, vigil.end}, watched.Context()}
		return response, nil
	}
	defer vigil.end()
	if ctxErr := request.Context().Err(); ctxErr != nil {
		return nil, ctxErr
	}
	if silent := context.Cause(watched.Context()); silent != nil {
		return nil, silent
	}
	if problem := secrets.ExplainCertificate(err); problem != nil {
		return nil, fmt.Errorf("server %s: %w", c.base, problem)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it repeats the address
	}
	return nil, fmt.Errorf("server %s does not answer: %w; is it running, and is the address right?", c.base, err)
}

// send returns the answer if it is a good one. The caller closes its body.
func (c *Client) send(request *http.Request) (*http.Response, error) {
	response, err := c.answer(request)
	if err != nil {
		return nil, err
	}
	if choice, there := readChoice(response.Header); there {
		control.Chose(request.Context(), choice)
	}
	if response.StatusCode/100 == 2 {
		err = answerFormat.Check(formatOf(response.Header))
		if err == nil {
			return response, nil
		}
		return nil, errors.Join(fmt.Errorf("server %s: %w", c.base, err), response.Body.Close())
	}
	defer response.Body.Close()
	return nil, c.readError(response)
}

// maxErrorBytes limits how much of an error is read.
const maxErrorBytes = 1 << 20

// readError turns an answer back into the error that it carries.
func (c *Client) readError(response *http.Response) error {
	e := named(&Error{Status: response.StatusCode, Kind: response.Header.Get(kindHeader)})
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes)) // the status is sufficient
	var body errorBody
	if json.Unmarshal(data, &body) == nil {
		e.Message = body.Error
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("server %s answered %s: %.200s", c.base, response.Status, bytes.TrimSpace(data))
	}
	return e
}

// named makes an error wrap the error of its kind.
func named(e *Error) *Error {
	for _, k := range errorKinds {
		if e.Kind == k.kind {
			e.err = k.err
		}
	}
	return e
}

// broken is the error of an answer that did not arrive whole.
func (c *Client) broken(err error) error {
	return fmt.Errorf("server %s: the answer is cut short or not what was expected: %w; is it a coalmine server of this version?", c.base, err)
}
