package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"coalmine/dashboards"
	"coalmine/internal/secrets"
	"coalmine/storage/open"
)

// place is the target of a command: a server, the Redis and the store of a cluster, or a home.
type place struct {
	server       string // address of a coalmine serve; the other fields are empty
	redis, store string // addresses of a cluster; one may be missing
	home         string // "" if any other field is set
}

// clustered reports whether the command talks to the Redis and the store of a cluster itself.
func (p place) clustered() bool { return p.redis != "" || p.store != "" }

// where names the place in the output of commands that delete or steer. The command must have
// opened the place.
func (g *global) where() string {
	p, _ := g.places.place() // opening it returned no error
	return p.String()
}

// homeExists returns an error if there is no home at the place.
func (p place) homeExists() error {
	if _, err := os.Stat(p.home); err != nil {
		return fmt.Errorf("home %s: %w; start a run with: coalmine run FILE, or name another place with --home, --store or --server", p.home, err)
	}
	return nil
}

// defaultHome is the home of a command if no flag or variable names a place.
const defaultHome = ".coalmine"

// placeSetting is one way to name a place, or a part of a cluster.
type placeSetting struct {
	kind           string // settings of one kind together name a place
	flag, variable string // variable may be ""
	field          func(*place) *string
}

var placeSettings = []placeSetting{
	{"server", "server", "COALMINE_SERVER", func(p *place) *string { return &p.server }},
	{"cluster", "redis", "COALMINE_REDIS_URL", func(p *place) *string { return &p.redis }},
	{"cluster", "store", "COALMINE_STORE_URL", func(p *place) *string { return &p.store }},
	{"home", "home", "", func(p *place) *string { return &p.home }},
}

// choosePlace chooses the place of a command. flags holds the flags on the command line; getenv
// returns the values of variables.
//
// A flag overrides its variable, even with an empty value. If any flag names a place, variables
// only complete a cluster whose Redis or store, but not both, the flags name. Otherwise the
// variables decide. It is an error if the deciding settings name two places.
func choosePlace(flags map[string]string, getenv func(string) string) (place, error) {
	if home, given := flags["home"]; given && home == "" {
		return place{}, errors.New("--home is empty: expected a directory")
	}
	fromFlags := func(s placeSetting) (name, value string) { return "--" + s.flag, flags[s.flag] }
	fromEnvironment := func(s placeSetting) (name, value string) {
		if _, overridden := flags[s.flag]; overridden || s.variable == "" {
			return s.variable, ""
		}
		return s.variable, getenv(s.variable)
	}
	p, err := readPlace(fromFlags, "give only one of them")
	if err != nil || p.server != "" {
		return p, err
	}
	if p.home != "" {
		if p.home, err = open.Path(p.home); err != nil {
			return place{}, fmt.Errorf("--home: %w", err)
		}
		return p, nil
	}
	if p.clustered() {
		for _, s := range placeSettings {
			if field := s.field(&p); s.kind == "cluster" && *field == "" {
				_, *field = fromEnvironment(s)
			}
		}
		return p, nil
	}
	p, err = readPlace(fromEnvironment, "unset one of them, or name the place with --server, with --redis and --store, or with --home")
	if err == nil && p == (place{}) {
		p.home = defaultHome
	}
	return p, err
}

// readPlace reads the place from one source of settings; it returns the zero place if they name
// none.
func readPlace(setting func(placeSetting) (name, value string), remedy string) (p place, err error) {
	var kind, first string
	for _, s := range placeSettings {
		name, value := setting(s)
		if value == "" {
			continue
		}
		if kind != "" && s.kind != kind {
			return place{}, fmt.Errorf("%s and %s name two places: %s", first, name, remedy)
		}
		kind, first = s.kind, name
		*s.field(&p) = value
	}
	return p, nil
}

// String names the place for people, without passwords.
func (p place) String() string {
	switch {
	case p.server != "":
		client, err := dashboards.NewClient(p.server, "")
		if err != nil {
			return "the server"
		}
		return "server " + client.String()
	case p.store != "":
		return "store " + storeName(p.store)
	case p.redis != "":
		return "a cluster without a store"
	}
	return "home " + absolute(p.home)
}

// storeName names a store for people. It hides an invalid URL, which may contain a password.
func storeName(location string) string {
	if !strings.Contains(location, "://") {
		if path, err := open.Path(location); err == nil {
			location = path
		}
		return absolute(location)
	}
	u, err := url.Parse(location)
	if err != nil {
		return "of an invalid URL"
	}
	u.User = nil
	return u.String()
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// placeFlags are the flags that name the place of a command.
type placeFlags struct {
	set       *pflag.FlagSet
	tokenFile string
}

func (f *placeFlags) add(set *pflag.FlagSet) {
	f.set = set
	set.String("home", defaultHome, "directory of embedded runs")
	set.String("redis", "", "Redis of a cluster: redis://, rediss:// or redis-sentinel:// URL (COALMINE_REDIS_URL)")
	set.String("store", "", "store of a cluster: s3://bucket/prefix?endpoint=http://host:port, or a directory (COALMINE_STORE_URL)")
	set.String("server", "", "address of a running coalmine serve, instead of --store (COALMINE_SERVER)")
	set.StringVar(&f.tokenFile, "token-file", "", "file with the token for --server (COALMINE_TOKEN holds the token itself)")
}

// given returns the place flags on the command line by name.
func (f *placeFlags) given() map[string]string {
	given := make(map[string]string)
	for _, s := range placeSettings {
		if flag := f.set.Lookup(s.flag); flag.Changed {
			given[s.flag] = flag.Value.String()
		}
	}
	return given
}

// repeated returns the place flags on the command line, for a command that a person pastes into a shell.
func (f *placeFlags) repeated() string {
	var b strings.Builder
	given := f.given()
	for _, s := range placeSettings {
		if value, ok := given[s.flag]; ok && !secrets.HasPassword(value) {
			b.WriteString(" --" + s.flag + " " + shellQuoted(value))
		}
	}
	if f.tokenFile != "" {
		b.WriteString(" --token-file " + shellQuoted(f.tokenFile))
	}
	return b.String()
}

var shellSafe = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellQuoted returns a text as one word of a POSIX shell.
func shellQuoted(text string) string {
	if shellSafe.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (f *placeFlags) place() (place, error) {
	p, err := choosePlace(f.given(), os.Getenv)
	if err == nil && f.tokenFile != "" && p.server == "" {
		return place{}, fmt.Errorf("--token-file is for a server, but %s is given: expected also --server", p)
	}
	return p, err
}

// token returns the token for the command's server.
func (f *placeFlags) token() (string, error) {
	if f.tokenFile == "" {
		return strings.TrimSpace(os.Getenv("COALMINE_TOKEN")), nil
	}
	return readToken(f.tokenFile)
}

func (f *placeFlags) client(p place) (*dashboards.Client, error) {
	token, err := f.token()
	if err != nil {
		return nil, err
	}
	return dashboards.NewClient(p.server, token)
}
