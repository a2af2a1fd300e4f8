package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"coalmine/internal/secrets"
)

// Timeouts of every Redis command. A blocking wait adds its own time to readTimeout.
const (
	dialTimeout  = 3 * time.Second
	readTimeout  = 3 * time.Second
	writeTimeout = 3 * time.Second
	// tries is the number of attempts at a command; the callers retry at their own pace.
	tries = 2
)

type server struct {
	name     string // without passwords
	sentinel bool   // found through Sentinels
	secure   bool   // over TLS
	dial     func() *redis.Client
}

// parseURL reads one of
//
//	redis://[user:password@]host[:port][/db]    plain TCP
//	rediss://…                                   the same over TLS
//	unix://[user:password@]/path/to/socket[?db=N]
//	redis-sentinel://[user:password@]host[:port][,host[:port]…][/db]?master=NAME
//	rediss-sentinel://…                          the same over TLS
//
// Query parameters are ca, cert and key, which name files for TLS (see package secrets);
// password_file, a file with the password, so that it can be replaced and is not part of the URL; and
// for the first three forms the options of redis.ParseURL except skip_verify. For Sentinel, user and
// password belong to the Redis servers; the Sentinels' own are the parameters sentinel_username and
// sentinel_password or sentinel_password_file.
func parseURL(text string) (server, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return server{}, errors.New("redis URL: no scheme: want redis://host:port/db, rediss://, unix:// or redis-sentinel://")
	}
	parse := parseSingle
	switch scheme {
	case "redis", "rediss", "unix":
	case "redis-sentinel", "rediss-sentinel":
		parse = parseSentinel
	default:
		return server{}, fmt.Errorf("redis URL: unknown scheme %q: want redis, rediss, unix, redis-sentinel or rediss-sentinel", scheme)
	}
	address, query, err := splitQuery(rest)
	if err != nil {
		return server{}, fmt.Errorf("redis URL: %w", err)
	}
	extras, err := takeExtras(scheme, query)
	if err != nil {
		return server{}, fmt.Errorf("redis URL: %w", err)
	}
	s, err := parse(scheme, address, query, extras)
	if err != nil {
		return server{}, fmt.Errorf("redis URL: %w", err)
	}
	return s, nil
}

// ShowsPassword reports whether a URL contains a readable password.
func ShowsPassword(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	if i := strings.LastIndex(rest, "@"); i >= 0 && strings.Contains(rest[:i], ":") {
		return true
	}
	return strings.Contains(rest, "sentinel_password=")
}

func splitQuery(rest string) (address string, query url.Values, err error) {
	address, text, _ := strings.Cut(rest, "?")
	if strings.Contains(text, "@") || strings.Contains(rest, "#") {
		return "", nil, errNotURL
	}
	query, err = url.ParseQuery(text)
	if err != nil {
		return "", nil, errNotURL
	}
	return address, query, nil
}

// extras are the parameters that the driver does not support.
type extras struct {
	tls      *tls.Config // nil without TLS
	password *passwordFile
}

func takeExtras(scheme string, query url.Values) (x extras, err error) {
	files, err := secrets.TakeCertificateFiles(query)
	if err != nil {
		return x, err
	}
	if x.password, err = takeFile(query, "password_file"); err != nil {
		return x, err
	}
	if !strings.HasPrefix(scheme, "rediss") {
		if files != (secrets.CertificateFiles{}) {
			return x, secrets.ErrPlain
		}
		return x, nil
	}
	if x.tls, err = files.Config(); x.tls == nil {
		x.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return x, err
}

func parseSingle(scheme, address string, query url.Values, x extras) (server, error) {
	if i := strings.IndexByte(address, '/'); scheme != "unix" && i >= 0 && strings.Contains(address[i:], "@") {
		return server{}, errNotURL
	}
	options, err := redis.ParseURL(scheme + "://" + address + "?" + query.Encode())
	if err != nil {
		return server{}, withoutURL(err)
	}
	if x.password != nil {
		if options.Password != "" {
			return server{}, errTwoPasswords
		}
		options.CredentialsProviderContext = x.password.login(options.Username)
	}
	if x.tls != nil {
		if options.TLSConfig.InsecureSkipVerify {
			return server{}, errUnverified
		}
		x.tls.ServerName = options.TLSConfig.ServerName
		options.TLSConfig = x.tls
	}
	name := fmt.Sprintf("redis at %s, database %d", options.Addr, options.DB)
	return server{name: name, secure: x.tls != nil, dial: func() *redis.Client { return newClient(options) }}, nil
}

// errUnverified refuses an option of the driver's URLs that would let an attacker on the network path
// read the password and impersonate Redis.
var errUnverified = errors.New("skip_verify would trust any server that answers: leave it out, and name the authority of the server's certificate by ca=FILE")

var errTwoPasswords = errors.New("it holds a password and a password_file: leave one of them out")

// errNotURL replaces errors that would quote part of the URL: a password that contains a slash is
// partly parsed as port, path or query.
var errNotURL = errors.New("not a URL: want redis://user:password@host:port/db, with / ? # % @ in a password as %2F %3F %23 %25 %40")

// withoutURL returns the error of a parser, or errNotURL if it quotes the URL.
func withoutURL(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errNotURL
	}
	return err
}

// protocol is RESP2: with RESP3 the driver checks for push messages before every reply, and this
// package subscribes to none.
const protocol = 2

// newClient connects by a copy of options with this package's timeouts.
func newClient(options *redis.Options) *redis.Client {
	o := *options
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, readTimeout, writeTimeout
	o.MaxRetries, o.DialerRetries = tries-1, 1
	o.ContextTimeoutEnabled = true
	o.Protocol = protocol
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&o)
}

// passwordFile is a file with a password. It is read again for each connection, so that a replaced
// password is found as soon as the old one is refused.
type passwordFile struct{ parameter, path string }

// maxPassword limits the size of a file with a password, in bytes.
const maxPassword = 64 << 10

// takeFile removes the parameter of a password file from the query, and reads the file once; nil
// without the parameter.
func takeFile(query url.Values, parameter string) (*passwordFile, error) {
	if !query.Has(parameter) {
		return nil, nil
	}
	f := &passwordFile{parameter, query.Get(parameter)}
	query.Del(parameter)
	secrets.NoteFile(f.path)
	_, err := f.read()
	return f, err
}

func (f *passwordFile) read() (string, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.parameter, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxPassword))
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.parameter, err)
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s: %s holds no password: want one line", f.parameter, f.path)
	}
	return secret, nil
}

// login returns the credentials of a new connection; the driver calls it.
func (f *passwordFile) login(user string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		password, err := f.read()
		return user, password, err
	}
}

// loginToSentinel logs a new connection in to a Sentinel, for which the driver has no callback like
// login. The driver also calls it for connections to Redis, which are already logged in.
func (f *passwordFile) loginToSentinel(user string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		if !redis.HasErrorPrefix(conn.Ping(ctx).Err(), "NOAUTH") {
			return nil
		}
		password, err := f.read()
		switch {
		case err != nil:
			return err
		case user != "":
			return conn.AuthACL(ctx, user, password).Err()
		}
		return conn.Auth(ctx, password).Err()
	}
}
