package dashboards

import (
	"bytes"
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

// Client implements control.API by requests to a Server. It may be used from several goroutines.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
	watch watchTimes
	watchdogTimes
}

var _ control.API = (*Client)(nil)

// Error is an error from a server. It wraps the server's error if that has a
// kind: errors.Is works as in a local call.
type Error struct {
	Status  int    // of HTTP
	Kind    string // see docs/api.md
	Message string
	err     error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.err }

// Timeouts of the client. The client bounds the time to connect and the silence of a server (see
// watchdogTimes), not the duration of a request.
const (
	dialTimeout     = 10 * time.Second
	continueTimeout = 5 * time.Second
)

// NewClient talks to the server at address: http://host:port or https://host,
// or just host:port for plain HTTP. token may be empty. Parameters of an https
// address may name files for TLS, see package secrets.
func NewClient(address, token string) (*Client, error) {
	if address == "" {
		return nil, errors.New("missing server address; expected http://host:port or https://host:port")
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("invalid server address: expected http://host:port or https://host:port")
	}
	files, err := takeFiles(base)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("invalid server address: expected http://host:port or https://host:port, with no parameters but ca, cert and key")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	transport.ExpectContinueTimeout = continueTimeout
	transport.TLSClientConfig = files
	return &Client{
		base: base, token: token, watch: defaultWatchTimes, watchdogTimes: defaultWatchdogTimes,
		http: &http.Client{
			Transport: transport,
			// A redirect would send the token to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// takeFiles reads the files named by the parameters of an address, and removes the parameters.
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

// String returns the server's address.
func (c *Client) String() string { return c.base.String() }

func (c *Client) HasSource(ctx context.Context, digest storage.Digest) (bool, error) {
	response, err := hasSource.open(ctx, c, nil, digest.String())
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
	request, err := putSource.request(ctx, c, nil, io.LimitReader(body, size), digest.String())
	if err != nil {
		return err
	}
	request.ContentLength = size
	request.Header.Set("Expect", "100-continue") // an error comes before the data is sent
	answer, err := putSource.send(c, request)
	if err != nil {
		return fmt.Errorf("uploading source %s: %w", digest.Short(), err)
	}
	if answer.Digest != digest {
		return fmt.Errorf("uploading source %s: %w: the server stored %s", digest.Short(), storage.ErrCorrupt, answer.Digest.Short())
	}
	return nil
}

func (c *Client) Submit(ctx context.Context, spec runs.Spec, fresh bool) (control.Submitted, error) {
	return submitRun.post(ctx, c, url.Values{"fresh": {strconv.FormatBool(fresh)}}, spec)
}

func (c *Client) SubmitFile(ctx context.Context, file control.File, fresh bool) (control.Submitted, error) {
	query := url.Values{"fresh": {strconv.FormatBool(fresh)}, "name": {file.Name}, "set": file.Sets}
	if file.Priority != nil {
		query.Set("priority", strconv.Itoa(*file.Priority))
	}
	request, err := submitRun.request(ctx, c, query, bytes.NewReader(file.Text))
	if err != nil {
		return control.Submitted{}, err
	}
	request.Header.Set("Content-Type", fileType)
	return submitRun.send(c, request)
}

func (c *Client) List(ctx context.Context) ([]*status.Run, error) {
	answer, err := listRuns.ask(ctx, c, nil)
	return answer.Runs, err
}

func (c *Client) Status(ctx context.Context, run string) (*status.Run, error) {
	return showRun.ask(ctx, c, nil, run)
}

func (c *Client) Steer(ctx context.Context, run string, e runs.Entry) (string, error) {
	answer, err := steerRun.post(ctx, c, nil, e, run)
	return answer.Run, err
}

func (c *Client) Remove(ctx context.Context, run string) (*control.Removed, error) {
	return removeRun.ask(ctx, c, nil, run)
}

func (c *Client) Workers(ctx context.Context) (*status.Fleet, error) {
	return showWorkers.ask(ctx, c, nil)
}

func (c *Client) Drain(ctx context.Context, worker string) ([]string, error) {
	answer, err := drainWorker.post(ctx, c, nil, struct{}{}, worker)
	return answer.Workers, err
}

func (c *Client) Experiment(ctx context.Context, run string) (*experiment.Spec, error) {
	return runExperiment.ask(ctx, c, nil, run)
}

func (c *Client) Results(ctx context.Context, run string) (*results.Results, error) {
	return runResults.ask(ctx, c, nil, run)
}

func (c *Client) Rounds(ctx context.Context, run string) (*results.Rounds, error) {
	return runRounds.ask(ctx, c, url.Values{"rows": {string(results.RoundRows)}}, run)
}

func (c *Client) Curve(ctx context.Context, run, cell string, points int) (*results.Curve, error) {
	return cellCurve.ask(ctx, c, url.Values{"points": {strconv.Itoa(points)}}, run, cell)
}

func (c *Client) Canaries(ctx context.Context, run, cell string, points int) (*results.CanaryLives, error) {
	return cellCanaries.ask(ctx, c, url.Values{"points": {strconv.Itoa(points)}}, run, cell)
}

func (c *Client) Surroundings(ctx context.Context, run, cell string, canary, round int) (*control.Surroundings, error) {
	query := url.Values{}
	if round != control.LastRound {
		query.Set("round", strconv.Itoa(round))
	}
	return canaryReferences.ask(ctx, c, query, run, cell, strconv.Itoa(canary))
}

func (c *Client) History(ctx context.Context, run string) (*control.History, error) {
	return runHistory.ask(ctx, c, nil, run)
}

func (c *Client) Model(ctx context.Context, run, cell string, round int) ([]byte, error) {
	query := url.Values{}
	switch round {
	case control.LastRound:
	case control.NewestRound:
		query.Set("round", newestRound)
	default:
		query.Set("round", strconv.Itoa(round))
	}
	return exportModel.file(ctx, c, query, run, cell)
}

func (c *Client) Prepared(ctx context.Context, run, cell, name string) ([]byte, error) {
	return exportPrepared.file(ctx, c, nil, run, cell, name)
}

func (c *Client) Data(ctx context.Context, run, cell string, table dataexport.Table, format dataexport.Format, w io.Writer) error {
	response, err := exportData.open(ctx, c, url.Values{"format": {string(format)}}, run, cell, string(table))
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

func (c *Client) Nodes(ctx context.Context, run string, which control.NodeQuery) ([]control.Node, error) {
	query := url.Values{}
	if changes := which.Changes; changes != nil {
		query = url.Values{"keys": {strings.Join(changes.Keys, ",")}, "after": {strconv.Itoa(changes.After)}}
	}
	answer, err := listNodes.ask(ctx, c, query, run, which.Cell)
	return answer.Nodes, err
}

func (c *Client) Lineage(ctx context.Context, run, cell, key string) (*control.Lineage, error) {
	return showLineage.ask(ctx, c, nil, run, cell, key)
}

func (c *Client) Spending(ctx context.Context, run, cell string) (control.Spending, error) {
	return cellPrivacy.ask(ctx, c, nil, run, cell)
}

func (c *Client) Logs(ctx context.Context, run, node string) ([]control.AttemptLog, error) {
	answer, err := runLogs.ask(ctx, c, url.Values{"node": {node}}, run)
	return answer.Logs, err
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

// Ready returns an error if the server is not ready.
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
	watched, watchdog := c.withWatchdog(request)
	response, err := c.http.Do(watched)
	if err == nil {
		response.Body = &answerBody{watchedBody{response.Body, watchdog, watchdog.end}, watched.Context()}
		return response, nil
	}
	defer watchdog.end()
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

// send returns a successful answer, or its error. The caller closes the body.
func (c *Client) send(request *http.Request) (*http.Response, error) {
	response, err := c.answer(request)
	if err != nil {
		return nil, err
	}
	if choice, there := readChoice(response.Header); there {
		control.ReportChoice(request.Context(), choice)
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

// maxErrorBytes bounds the body of an error.
const maxErrorBytes = 1 << 20

// readError decodes the error in an answer.
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

// named returns an error that wraps the error of its kind.
func named(e *Error) *Error {
	for _, k := range errorKinds {
		if e.Kind == k.kind {
			e.err = k.err
		}
	}
	return e
}

// broken returns the error of a truncated answer.
func (c *Client) broken(err error) error {
	return fmt.Errorf("server %s: the answer is truncated or invalid: %w; is it a coalmine server of this version?", c.base, err)
}
