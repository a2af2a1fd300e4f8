package queue

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

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
