package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coalmine/dashboards"
	"coalmine/internal/build"
	"coalmine/internal/kernels"
	"coalmine/workflows/plan/compile"
)

// version identifies this build in records and answers.
func version() string { return build.Read().String() }

// versionFacts is the output of version --json.
type versionFacts struct {
	build.Info

	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Kernels  string   `json:"kernels"`
	Kinds    []string `json:"kinds"`
}

func newVersionCommand(g *global) *cobra.Command {
	var licenses bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, build and kernel set, or the licenses",
		Long: `Print the version, the commit, Go's version, the platform and the kernel set of this
build; with --json also its kinds of tasks. --licenses prints the licenses of
Coalmine and of the third-party software in it.`,
		Example: "  coalmine version --json | jq .kinds\n  coalmine version --licenses | less",
		RunE: func(*cobra.Command, []string) error {
			if licenses {
				text, err := licensesText()
				if err != nil {
					return err
				}
				return g.report(map[string]string{"license": "Apache-2.0", "notice": text},
					"Coalmine is licensed under the Apache License 2.0: https://www.apache.org/licenses/LICENSE-2.0\n\n%s", text)
			}
			facts := versionFacts{
				build.Read(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH,
				kernels.Set(), compile.Registry().Advertised(),
			}
			return g.report(facts, "coalmine %s%s, %s, %s, %s kernels\n", facts.Version, commitText(facts.Info), facts.Go, facts.Platform, facts.Kernels)
		},
	}
	c.Flags().BoolVar(&licenses, "licenses", false, "print the licenses of Coalmine and of the third-party software in it")
	return c
}

// commitText returns a text such as " (commit 3f2a9c41d07e of 2026-11-27, modified)".
func commitText(i build.Info) string {
	if i.Commit == "" {
		return ""
	}
	text := fmt.Sprintf(" (commit %s", i.Commit[:min(12, len(i.Commit))])
	if !i.Time.IsZero() {
		text += " of " + i.Time.UTC().Format(time.DateOnly)
	}
	if i.Modified {
		text += ", modified"
	}
	return text + ")"
}

// licensesText returns the licenses of Go, the linked modules and the page's packages.
func licensesText() (string, error) {
	notice, err := build.Notice()
	if err != nil {
		return "", err
	}
	page, err := dashboards.Licenses()
	for _, p := range page {
		notice += fmt.Sprintf("\n%s\n%s %s, in the page, %s\n\n%s\n", strings.Repeat("=", 80), p.Name, p.Version, p.Identifier, strings.TrimSpace(p.Text))
	}
	return notice, err
}
