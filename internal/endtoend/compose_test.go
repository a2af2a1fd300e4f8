package endtoend_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"coalmine/internal/must"
	"coalmine/internal/queue"
)

// composeFile holds the parts of compose.yaml that the tests need.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Configs  map[string]struct {
		Content string `yaml:"content"`
	} `yaml:"configs"`
}

type composeService struct {
	Image       string            `yaml:"image"`
	Build       *composeBuild     `yaml:"build"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     []string          `yaml:"command"`
	StopGrace   string            `yaml:"stop_grace_period"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Restart     string            `yaml:"restart"`
	Configs     []composeMount    `yaml:"configs"`
	Healthcheck *struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

type composeBuild struct {
	Context    string `yaml:"context"`
	Dockerfile string `yaml:"dockerfile"`
}

type composeMount struct {
	Source string `yaml:"source"`
	Target string `yaml:"target"`
}

// root is the root of the repository, seen from this package.
const root = "../.."

// readCompose reads compose.yaml with its variables replaced. A variable without
// a value and without a default fails the test.
func readCompose(t testing.TB, variables map[string]string) *composeFile {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(root, "compose.yaml")))(t)
	var f composeFile
	// To this decoder a field that overrides a merged one is a duplicate.
	decoder := yaml.NewDecoder(strings.NewReader(interpolate(t, string(data), variables)), yaml.AllowDuplicateMapKey())
	must.Do(t, decoder.Decode(&f))
	return &f
}

// variable matches ${NAME:?message} and ${NAME:-default}.
var variable = regexp.MustCompile(`\$\{(\w+):([?-])([^}]*)\}`)

func interpolate(t testing.TB, text string, variables map[string]string) string {
	t.Helper()
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		parts := variable.FindStringSubmatch(found)
		value := variables[parts[1]]
		switch {
		case value != "":
			return value
		case parts[2] == "-":
			return parts[3]
		}
		t.Fatalf("%s: %s", parts[1], parts[3])
		return ""
	})
}

// composeSecrets are those that compose.env.example asks for.
var composeSecrets = map[string]string{
	"COALMINE_REDIS_PASSWORD": "0123456789abcdef-redis",
	"COALMINE_S3_SECRET":      "0123456789abcdef-s3",
	"COALMINE_TOKEN":          "0123456789abcdef-token",
}

// Tasks that are stopped after the grace of a worker have their time to return, and three seconds
// are for the farewell.
func TestComposeGraceExceedsWorkerGrace(t *testing.T) {
	t.Parallel()
	worker := readCompose(t, composeSecrets).Services["worker"]
	at := slices.Index(worker.Command, "--grace")
	grace := must.Get(time.ParseDuration(worker.Command[at+1]))(t)
	if stop, err := time.ParseDuration(worker.StopGrace); err != nil || stop < grace+queue.StopGrace+3*time.Second {
		t.Errorf("%s until the container is killed for a grace of %v: %v", worker.StopGrace, grace, err)
	}
}

func TestEveryImageOfTheClusterIsPinned(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z0-9.]+)?(@sha256:[0-9a-f]{64})?$`)
	for name, s := range readCompose(t, composeSecrets).Services {
		if s.Build == nil {
			if !pinned.MatchString(s.Image) {
				t.Errorf("service %s: image %q has no exact version", name, s.Image)
			}
			continue
		}
		dockerfile := must.Get(os.ReadFile(filepath.Join(root, s.Build.Context, s.Build.Dockerfile)))(t)
		for _, from := range regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(string(dockerfile), -1) {
			if !pinned.MatchString(from[1]) {
				t.Errorf("%s: image %q has no exact version", s.Build.Dockerfile, from[1])
			}
		}
	}
}

func TestOnlyThePageIsPublishedAndOnlyOnLocalhost(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t, composeSecrets).Services {
		for _, port := range s.Ports {
			if name != "coordinator" || !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("service %s publishes %s", name, port)
			}
		}
	}
}

func TestEveryServerOfTheClusterIsCheckedAndRestarted(t *testing.T) {
	t.Parallel()
	f := readCompose(t, composeSecrets)
	for _, name := range []string{"redis", "s3", "coordinator", "worker"} {
		s, ok := f.Services[name]
		if !ok || s.Healthcheck == nil || s.Restart == "" {
			t.Errorf("service %s: has a health check and a restart policy: %+v", name, s)
		}
	}
}

func TestNoSecretStandsOnACommandLine(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t, composeSecrets).Services {
		words := slices.Concat(s.Entrypoint, s.Command)
		if s.Healthcheck != nil {
			words = append(words, s.Healthcheck.Test...)
		}
		for _, word := range words {
			for variable, secret := range composeSecrets {
				if strings.Contains(word, secret) {
					t.Errorf("service %s: %s on its command line", name, variable)
				}
			}
		}
	}
}

func TestEnvironmentExampleListsEmptySecrets(t *testing.T) {
	t.Parallel()
	data := must.Get(os.ReadFile(filepath.Join(root, "compose.env.example")))(t)
	for name := range composeSecrets {
		if !strings.Contains("\n"+string(data), "\n"+name+"=\n") {
			t.Errorf("compose.env.example: no empty %s", name)
		}
	}
}
