package queue

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/secrets"
)

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
