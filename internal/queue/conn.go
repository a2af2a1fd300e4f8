package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"coalmine/internal/secrets"
)

// Conn is a connection to one Redis, shared by a broker and any number of
// consumers of this process. It is made by Open or Embedded and lasts until Close.
type Conn struct {
	name string
	// dial makes another client of the same server. Blocking waits and asynq servers
	// have their own clients.
	dial   func() *redis.Client
	client *redis.Client
	close  func() error
}

// Open connects to the Redis at url (see parseURL for the forms redis://, rediss://,
// unix://, redis-sentinel://, rediss-sentinel://) and checks that it is suitable:
// reachable, a master, not a cluster, at least 6.2, not evicting keys, and accepting
// writes. The error wraps ErrUnreachable, ErrUnsuitable or ErrNoWrites.
func Open(ctx context.Context, url string) (*Conn, error) {
	routeDriverLog()
	server, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	c := newConn(server.name, server.dial)
	info, err := c.client.Info(ctx).Result()
	if err == nil {
		err = checkServer(parseInfo(info))
	}
	if err == nil {
		err = c.write(ctx)
	}
	if err != nil {
		err = server.explain(err)
		return nil, errors.Join(fmt.Errorf("%s: %w", server.name, err), c.Close())
	}
	return c, nil
}

// Embedded starts a Redis inside this process, which ends with Close. It stores nothing
// on disk and listens on a loopback port with a random password.
func Embedded(ctx context.Context) (*Conn, error) {
	routeDriverLog()
	server := miniredis.NewMiniRedis()
	password := rand.Text()
	server.RequireAuth(password)
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	options := &redis.Options{Addr: server.Addr(), Password: password}
	c := newConn("embedded queue", func() *redis.Client { return newClient(options) })
	stopClock := driveClock(server)
	c.close = sync.OnceValue(func() error {
		stopClock()
		err := c.client.Close()
		server.Close()
		return err
	})
	if err := c.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded queue: %w", err), c.Close())
	}
	return c, nil
}

func newConn(name string, dial func() *redis.Client) *Conn {
	c := &Conn{name: name, dial: dial, client: dial()}
	c.close = sync.OnceValue(c.client.Close)
	return c
}

// clockStep is the interval at which keys of the embedded server age.
const clockStep = 250 * time.Millisecond

// driveClock lets keys expire: miniredis does not advance its clock by itself.
func driveClock(server *miniredis.Miniredis) (stop func()) {
	done := make(chan struct{})
	var stopped sync.WaitGroup
	stopped.Go(func() {
		ticker := time.NewTicker(clockStep)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				server.FastForward(clockStep)
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		stopped.Wait()
	}
}

// Close ends the connection, and the embedded server. Brokers and consumers of the
// connection must have ended before. It may be called twice.
func (c *Conn) Close() error { return c.close() }

// Ping returns an error if Redis does not answer or accepts no writes.
func (c *Conn) Ping(ctx context.Context) error {
	if err := c.write(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.name, Explain(err))
	}
	return nil
}

// probeTTL is the lifetime of the key that write sets.
const probeTTL = time.Second

// write sets a key, to detect a read-only server.
func (c *Conn) write(ctx context.Context) error {
	return c.client.Set(ctx, probeKey, 1, probeTTL).Err()
}

// String returns the server's name without any password.
func (c *Conn) String() string { return c.name }

// explain converts a failed first contact to a sentence with a remedy.
func (s server) explain(err error) error {
	if problem := secrets.ExplainCertificate(err); problem != nil {
		return fmt.Errorf("%w: %w", ErrUnsuitable, problem)
	}
	if errors.Is(err, ErrUnsuitable) {
		return err
	}
	text := err.Error()
	m, known := meaningOf(text)
	switch {
	case known && m.remedy == goodLogin:
		return &KnownError{m.mark, m.cause, s.login(text), err}
	case known:
		return &KnownError{m.mark, m.cause, m.remedy, err}
	case s.sentinel && errors.Is(err, redis.Nil):
		return fmt.Errorf("%w: the Sentinels know no master of that name: correct ?master=NAME in --redis (COALMINE_REDIS_URL)", ErrUnsuitable)
	case s.secure && isSilence(err):
		// A Redis without TLS treats the TLS greeting as an incomplete line and waits.
		return fmt.Errorf("%w: it takes the connection and does not answer: if it does not speak TLS, begin the address with redis:// in place of rediss:// (%w)", ErrUnreachable, err)
	case s.secure && isReset(err):
		// The alert is lost if the reset overtakes it.
		return fmt.Errorf("%w: it ends the connection once TLS is agreed on, as one does that asks for a client certificate or refuses the client certificate it is given: name another by cert=FILE and key=FILE in the URL (%w)", ErrUnreachable, err)
	case isReset(err):
		return fmt.Errorf("%w: it ends the connection at once: if it uses TLS, begin the address with rediss:// instead of redis:// (%w)", ErrUnreachable, err)
	}
	if s.sentinel {
		// The driver's message has a line for each Sentinel.
		return fmt.Errorf("%w: start the Sentinels and their master, or correct --redis or COALMINE_REDIS_URL: %s", ErrUnreachable, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return fmt.Errorf("%w: start redis-server there, or correct --redis or COALMINE_REDIS_URL: %w", ErrUnreachable, err)
}

// isSilence reports whether an error is a timeout after the connection was made.
func isSilence(err error) bool {
	_, network := errors.AsType[*net.OpError](err)
	return errors.Is(err, context.DeadlineExceeded) && !network
}

// isReset reports whether the peer closed the connection.
func isReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// login explains how to supply a missing or wrong password.
func (s server) login(text string) string {
	if s.sentinel && strings.Contains(text, "all sentinels specified") {
		return "put sentinel_password=… or sentinel_password_file=FILE into the URL for the Sentinels' own"
	}
	return goodLogin
}

// parseInfo reads the name:value lines of the INFO command.
func parseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func checkServer(info map[string]string) error {
	var major, minor int
	if v := info["redis_version"]; v != "" {
		// A version in another form belongs to another server: let it try.
		if n, _ := fmt.Sscanf(v, "%d.%d", &major, &minor); n == 2 && (major < 6 || major == 6 && minor < 2) {
			return fmt.Errorf("%w: its version is %s, the queue needs 6.2 or newer", ErrUnsuitable, v)
		}
	}
	if info["redis_mode"] == "cluster" || info["cluster_enabled"] == "1" {
		return fmt.Errorf("%w: %s: %s", ErrUnsuitable, isCluster, oneServer)
	}
	if role := info["role"]; role != "" && role != "master" {
		return fmt.Errorf("%w: it is a read-only %s: name its master, or the Sentinels (redis-sentinel://host,host?master=NAME)", ErrUnsuitable, role)
	}
	switch policy := info["maxmemory_policy"]; policy {
	case "noeviction":
	case "":
		slog.Warn("redis does not tell its maxmemory-policy: make sure that it is noeviction, or tasks may vanish under memory pressure")
	default:
		return fmt.Errorf("%w: its maxmemory-policy is %s, under which queued tasks may vanish: run CONFIG SET maxmemory-policy noeviction", ErrUnsuitable, policy)
	}
	return nil
}

// routeDriverLog sends the messages of the Redis driver to the debug log: every
// failed command also returns an error.
var routeDriverLog = sync.OnceFunc(func() { redis.SetLogger(driverLog{}) })

type driverLog struct{}

func (driverLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "redis driver: "+fmt.Sprintf(format, args...))
}

// sentinelParameters are the query parameters specific to a Sentinel URL.
var sentinelParameters = []string{"master", "sentinel_username", "sentinel_password"}

func parseSentinel(scheme, address string, query url.Values, x extras) (server, error) {
	hosts, path, _ := strings.Cut(address, "/")
	login := ""
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		login, hosts = hosts[:i+1], hosts[i+1:]
	}
	// net/url accepts only one host, so the list is parsed separately.
	u, err := url.Parse(scheme + "://" + login + "sentinels/" + path)
	if err != nil {
		return server{}, withoutURL(err)
	}
	options, err := sentinelOptions(u, hosts, query, x)
	if err != nil {
		return server{}, err
	}
	name := fmt.Sprintf("redis %q of the Sentinels %s, database %d", options.MasterName, strings.Join(options.SentinelAddrs, ", "), options.DB)
	dial := func() *redis.Client {
		o := *options
		return redis.NewFailoverClient(&o)
	}
	return server{name: name, sentinel: true, secure: x.tls != nil, dial: dial}, nil
}

func sentinelOptions(u *url.URL, hosts string, query url.Values, x extras) (*redis.FailoverOptions, error) {
	o := &redis.FailoverOptions{
		Username:              u.User.Username(),
		TLSConfig:             x.tls,
		DialTimeout:           dialTimeout,
		ReadTimeout:           readTimeout,
		WriteTimeout:          writeTimeout,
		MaxRetries:            tries - 1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		Protocol:              protocol,
	}
	if err := setPasswords(o, u, query, x); err != nil {
		return nil, err
	}
	for name := range query {
		if !slices.Contains(sentinelParameters, name) {
			return nil, fmt.Errorf("parameter %q: a Sentinel URL may have %s, sentinel_password_file, password_file, ca, cert and key", name, strings.Join(sentinelParameters, ", "))
		}
	}
	if o.MasterName = query.Get("master"); o.MasterName == "" {
		return nil, errors.New("it names no master: add ?master=NAME, as in the Sentinels' configuration")
	}
	var err error
	if o.SentinelAddrs, err = sentinelAddresses(hosts); err != nil {
		return nil, err
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.ParseUint(db, 10, 16)
		if err != nil {
			return nil, errNotURL
		}
		o.DB = int(n)
	}
	return o, nil
}

// setPasswords reads the passwords of the Redis servers and of the Sentinels.
func setPasswords(o *redis.FailoverOptions, u *url.URL, query url.Values, x extras) error {
	o.SentinelUsername, o.SentinelPassword = query.Get("sentinel_username"), query.Get("sentinel_password")
	fromFile, err := takeFile(query, "sentinel_password_file")
	if err != nil {
		return err
	}
	o.Password, _ = u.User.Password()
	if o.Password != "" && x.password != nil || o.SentinelPassword != "" && fromFile != nil {
		return errTwoPasswords
	}
	if x.password != nil {
		o.CredentialsProviderContext = x.password.login(o.Username)
	}
	if fromFile != nil {
		o.OnConnect = fromFile.loginToSentinel(o.SentinelUsername)
		o.SentinelUsername = ""
	}
	return nil
}

// sentinelAddresses reads host[:port],host[:port]…
func sentinelAddresses(hosts string) ([]string, error) {
	var addresses []string
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("a host is empty: want host:port,host:port")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "26379")
		}
		addresses = append(addresses, host)
	}
	return addresses, nil
}
