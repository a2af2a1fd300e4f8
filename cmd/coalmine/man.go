//go:build man

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"coalmine/internal/build"
)

// Builds with the tag man include a hidden command that writes the man pages, completions and licences
// of a release. The released program is built without it, because cobra/doc uses text/template.
func init() {
	addMan = func(root *cobra.Command) {
		root.AddCommand(&cobra.Command{
			Use: "man FOLDER", Short: "Write man pages, completions and licenses", Hidden: true, GroupID: groupProgram,
			RunE: func(_ *cobra.Command, args []string) error { return writeMan(root, args[0]) },
		})
	}
}

// writeMan writes the man pages below man/man1, dated by SOURCE_DATE_EPOCH, the completions below
// completions, and NOTICE.
func writeMan(root *cobra.Command, folder string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w; expected the seconds since 1970 of the commit", err)
	}
	pages, completions := filepath.Join(folder, "man", "man1"), filepath.Join(folder, "completions")
	if err := errors.Join(os.MkdirAll(pages, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	notice, err := licensesText()
	if err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	header := doc.GenManHeader{Section: "1", Source: "coalmine " + build.Version, Manual: "Coalmine", Date: new(time.Unix(seconds, 0).UTC())}
	return errors.Join(os.WriteFile(filepath.Join(folder, "NOTICE"), []byte(notice), 0o644), doc.GenManTree(root, &header, pages),
		root.GenBashCompletionFileV2(filepath.Join(completions, "coalmine.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_coalmine")),
		root.GenFishCompletionFile(filepath.Join(completions, "coalmine.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(filepath.Join(completions, "coalmine.ps1")))
}
