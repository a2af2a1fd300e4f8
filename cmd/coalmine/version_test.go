package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/build"
)

func TestVersionFlagPrintsVersion(t *testing.T) {
	t.Parallel()
	if out := prints(t, "--version"); out != "coalmine "+version()+"\n" {
		t.Errorf("%q", out)
	}
}

func TestVersionPrintsBuildFacts(t *testing.T) {
	t.Parallel()
	if out := prints(t, "version"); !regexp.MustCompile(`^coalmine ` + regexp.QuoteMeta(build.Version) + `( \(commit [0-9a-f]{12} .*\))?, go\S+, \w+/\w+, \w+ kernels\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
	var facts map[string]any
	decodeJSON(t, prints(t, "version", "--json"), &facts)
	for _, name := range []string{"version", "go", "platform", "kernels", "kinds"} {
		if facts[name] == nil {
			t.Errorf("version --json lacks %q", name)
		}
	}
}

func TestACommitIsBuildMetadataOfTheVersion(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]build.Info{
		"1.2.3":                       {Version: "1.2.3"},
		"1.2.3+0123456789ab":          {Version: "1.2.3", Commit: "0123456789abcdef"},
		"1.2.3+0123456789ab.modified": {Version: "1.2.3", Commit: "0123456789abcdef", Modified: true},
	} {
		if got := info.String(); got != want {
			t.Errorf("%+v: %q, want %q", info, got, want)
		}
	}
}

// CITATION.cff names the version that people cite.
func TestTheCitationNamesTheVersion(t *testing.T) {
	t.Parallel()
	citation, err := os.ReadFile("../../CITATION.cff")
	if err != nil || !strings.Contains(string(citation), "\nversion: "+build.Version+"\n") {
		t.Errorf("CITATION.cff does not say version: %s (%v)", build.Version, err)
	}
}

func TestLicensesCoverGoAndModules(t *testing.T) {
	t.Parallel()
	out := prints(t, "version", "--licenses")
	for _, name := range []string{"github.com/spf13/cobra v", "Go's runtime and standard library, LICENSE", "modernc.org/sqlite v"} {
		if !strings.Contains(out, "\n"+name) {
			t.Errorf("version --licenses lacks %s", name)
		}
	}
}

func TestThePageImportsOnlyLicensedPackages(t *testing.T) {
	t.Parallel()
	out := prints(t, "version", "--licenses")
	imported := regexp.MustCompile(`(?:from|import)\s*\(?'((?:@[\w-]+/)?[\w-]+)[/']`)
	found := 0
	err := filepath.WalkDir("../../dashboards/page/src", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, m := range imported.FindAllSubmatch(content, -1) {
			if found++; !strings.Contains(out, "\n"+string(m[1])+" ") {
				t.Errorf("%s imports %s, whose license is missing: run scripts/build-page.sh", path, m[1])
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d imports of packages were found in dashboards/page/src: %v", found, err)
	}
}
