package queue

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timeouts of every Redis command. A blocking wait adds its own time to readTimeout.
const (
	dialTimeout  = 3 * time.Second
	readTimeout  = 3 * time.Second
	writeTimeout = 3 * time.Second
	// tries is how often a command is sent before its error is returned; the
	// loops above it try again at their own pace.
	tries = 2
)

// server is what a URL names.
type server struct {
	name string // without any password
	dial func() *redis.Client
}

// parseURL reads one of
//
//	redis://[user:password@]host[:port][/db]    plain TCP
//	rediss://…                                   the same over TLS
//	unix://[user:password@]/path/to/socket[?db=N]
//	redis-sentinel://[user:password@]host[:port][,host[:port]…][/db]?master=NAME
//	rediss-sentinel://…                          the same over TLS
//
// The first three take the options of redis.ParseURL as query parameters. For
// Sentinel, user and password are those of the Redis servers; the Sentinels' own
// are the parameters sentinel_username and sentinel_password.
func parseURL(text string) (server, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return server{}, errors.New("redis URL: no scheme: want redis://host:port/db, rediss://, unix:// or redis-sentinel://")
	}
	switch scheme {
	case "redis-sentinel", "rediss-sentinel":
		return parseSentinel(scheme, rest)
	case "redis", "rediss", "unix":
		return parseSingle(scheme, rest)
	}
	return server{}, fmt.Errorf("redis URL: unknown scheme %q: want redis, rediss, unix, redis-sentinel or rediss-sentinel", scheme)
}

func parseSingle(scheme, rest string) (server, error) {
	if i := strings.IndexAny(rest, "/?#"); scheme != "unix" && i >= 0 && strings.Contains(rest[i:], "@") {
		return server{}, fmt.Errorf("redis URL: %w", errNotURL)
	}
	options, err := redis.ParseURL(scheme + "://" + rest)
	if err != nil {
		return server{}, fmt.Errorf("redis URL: %w", withoutURL(err))
	}
	name := fmt.Sprintf("redis at %s, database %d", options.Addr, options.DB)
	return server{name: name, dial: func() *redis.Client { return newClient(options) }}, nil
}

// errNotURL stands for errors that would quote a part of the URL: where a password
// holds a slash, what is taken for port, path or query is the password.
var errNotURL = errors.New("not a URL: want redis://user:password@host:port/db, with / ? # % @ in a password as %2F %3F %23 %25 %40")

// withoutURL is the error of a parser, or errNotURL where that quotes the URL.
func withoutURL(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errNotURL
	}
	return err
}

// newClient connects by a copy of options with this package's timeouts.
func newClient(options *redis.Options) *redis.Client {
	o := *options
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, readTimeout, writeTimeout
	o.MaxRetries, o.DialerRetries = tries-1, 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&o)
}

func parseSentinel(scheme, rest string) (server, error) {
	hosts, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		hosts, tail = rest[:i], rest[i:]
	}
	login := ""
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		login, hosts = hosts[:i+1], hosts[i+1:]
	}
	// net/url takes one host only, so the list is parsed apart from the rest.
	u, err := url.Parse(scheme + "://" + login + "sentinels" + tail)
	if err != nil {
		return server{}, fmt.Errorf("redis Sentinel URL: %w", withoutURL(err))
	}
	options, err := sentinelOptions(u, hosts)
	if err != nil {
		return server{}, fmt.Errorf("redis Sentinel URL: %w", err)
	}
	name := fmt.Sprintf("redis %q of the Sentinels %s, database %d", options.MasterName, strings.Join(options.SentinelAddrs, ", "), options.DB)
	return server{name: name, dial: func() *redis.Client {
		o := *options
		return redis.NewFailoverClient(&o)
	}}, nil
}

func sentinelOptions(u *url.URL, hosts string) (*redis.FailoverOptions, error) {
	query := u.Query()
	o := &redis.FailoverOptions{
		MasterName:            query.Get("master"),
		SentinelUsername:      query.Get("sentinel_username"),
		SentinelPassword:      query.Get("sentinel_password"),
		Username:              u.User.Username(),
		DialTimeout:           dialTimeout,
		ReadTimeout:           readTimeout,
		WriteTimeout:          writeTimeout,
		MaxRetries:            tries - 1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
	}
	o.Password, _ = u.User.Password()
	if o.MasterName == "" {
		return nil, errors.New("it names no master: add ?master=NAME, as in the Sentinels' configuration")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("a host is empty: want host:port,host:port")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "26379")
		}
		o.SentinelAddrs = append(o.SentinelAddrs, host)
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.ParseUint(db, 10, 16)
		if err != nil {
			return nil, errNotURL
		}
		o.DB = int(n)
	}
	if u.Scheme == "rediss-sentinel" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o, nil
}
