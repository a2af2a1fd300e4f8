package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// env returns the values of variables, "" for those that are not set.
func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestFlagsOverrideEnvironment(t *testing.T) {
	t.Parallel()
	cluster := map[string]string{"COALMINE_REDIS_URL": "redis-v", "COALMINE_STORE_URL": "store-v"}
	everything := map[string]string{"COALMINE_SERVER": "server-v", "COALMINE_REDIS_URL": "redis-v", "COALMINE_STORE_URL": "store-v"}
	for _, c := range []struct {
		name       string
		flags, env map[string]string
		want       place
		refusal    string // names that the error has, if it is one
	}{
		{"nothing is named", nil, nil, place{home: ".coalmine"}, ""},
		{"variables name a cluster", nil, cluster, place{redis: "redis-v", store: "store-v"}, ""},
		{"variables name two places", nil, everything, place{}, "COALMINE_SERVER COALMINE_REDIS_URL"},
		{"--home beside a cluster", map[string]string{"home": "h"}, cluster, place{home: "h"}, ""},
		{"--home beside everything", map[string]string{"home": "h"}, everything, place{home: "h"}, ""},
		{"--server beside a cluster", map[string]string{"server": "s"}, cluster, place{server: "s"}, ""},
		{"--store beside a server", map[string]string{"store": "s"}, map[string]string{"COALMINE_SERVER": "server-v"}, place{store: "s"}, ""},
		{"--store is completed", map[string]string{"store": "s"}, everything, place{redis: "redis-v", store: "s"}, ""},
		{"--redis is completed", map[string]string{"redis": "r"}, everything, place{redis: "r", store: "store-v"}, ""},
		{"--store without Redis", map[string]string{"store": "s", "redis": ""}, everything, place{store: "s"}, ""},
		{"an empty flag leaves the rest to the variables", map[string]string{"server": ""}, everything, place{redis: "redis-v", store: "store-v"}, ""},
		{"--home and --store", map[string]string{"home": "h", "store": "s"}, nil, place{}, "--home --store"},
		{"--home and --redis", map[string]string{"home": "h", "redis": "r"}, nil, place{}, "--home --redis"},
		{"--server and --home", map[string]string{"home": "h", "server": "s"}, nil, place{}, "--home --server"},
		{"--home holds a variable", map[string]string{"home": "$HOME/x"}, nil, place{}, "--home variable"},
		{"--home is empty", map[string]string{"home": ""}, nil, place{}, "--home"},
	} {
		got, err := choosePlace(c.flags, env(c.env))
		if got != c.want || (err != nil) != (c.refusal != "") {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
		for _, name := range strings.Fields(c.refusal) {
			if err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v does not name %s", c.name, err, name)
			}
		}
	}
}

// Over all combinations of flags and variables: a flag that is given is heeded or the command is
// refused, and no variable leads away from a place that a flag names.
func TestVariablesNeverOverrideFlags(t *testing.T) {
	t.Parallel()
	for set := range 1 << (2 * len(placeSettings)) {
		flags, variables := map[string]string{}, map[string]string{}
		kinds := map[bool]map[string]bool{true: {}, false: {}} // that flags or variables name
		for i, s := range placeSettings {
			if set>>(2*i)&1 == 1 {
				flags[s.flag] = s.flag + "-flag"
				kinds[true][s.kind] = true
			}
			if set>>(2*i+1)&1 == 1 && s.variable != "" {
				variables[s.variable] = s.flag + "-variable"
				kinds[false][s.kind] = kinds[false][s.kind] || flags[s.flag] == ""
			}
		}
		maps.DeleteFunc(kinds[false], func(_ string, named bool) bool { return !named })
		got, err := choosePlace(flags, env(variables))
		deciding := kinds[len(kinds[true]) > 0]
		if (err != nil) != (len(deciding) > 1) {
			t.Errorf("flags %v, variables %v: %+v, %v", flags, variables, got, err)
			continue
		}
		for _, s := range placeSettings {
			value := *s.field(&got)
			if given := flags[s.flag]; err == nil && given != "" && value != given {
				t.Errorf("flags %v, variables %v: %s is %q", flags, variables, s.flag, value)
			}
			if err == nil && value != "" && len(deciding) > 0 && !deciding[s.kind] {
				t.Errorf("flags %v, variables %v: %s is %q", flags, variables, s.flag, value)
			}
		}
	}
}

// The environment names another cluster, which no command below touches.
func TestCommandsActAtPlaceOfFlags(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	t.Setenv("COALMINE_REDIS_URL", "redis://127.0.0.1:1")
	t.Setenv("COALMINE_STORE_URL", elsewhere)
	home := t.TempDir()
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"gc --home " + home, "home " + home, exitDone},
		{"gc --json --home " + home, `"at": "home ` + home, exitDone},
		{"rm latest --home " + home, "no such run", exitUsage},
		{"gc --redis= --store " + home, "store " + home, exitDone},
		{"gc --home " + home + " --store " + home, "--store and --home name two places", exitUsage},
		{"gc --home " + home + " --token-file token", "--token-file", exitUsage},
		{"worker --home " + home, "home " + home, exitUsage},
		{"serve --server http://127.0.0.1:1", "server http://127.0.0.1:1", exitUsage},
		{"verify --server http://127.0.0.1:1", "server http://127.0.0.1:1", exitUsage},
	} {
		code, stdout, stderr := coalmine(t, strings.Fields(c.args)...)
		if said := stdout + stderr; code != c.code || !strings.Contains(said, c.says) || strings.Contains(said, elsewhere) {
			t.Errorf("%s: exit status %d, want %d saying %q:\n%s", c.args, code, c.code, c.says, said)
		}
	}
}

// A store that a mistyped name would make is empty, and a command on it says that all is well.
func TestCommandsCreateNoMissingStore(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "typo")
	for _, command := range []string{"status", "results", "rm x", "gc", "verify x"} {
		refuses(t, "store "+store+": ", append(strings.Fields(command), "--store", store)...)
	}
	if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store is there: %v", err)
	}
}
