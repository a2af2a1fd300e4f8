package external

import (
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/workspace"
)

// word is a word of a command line, as far as a shell is not needed to tell.
var word = regexp.MustCompile(`>?\s*[^\s"'=;|&<>()]+`)

// namedFiles are the paths below out that a command line names. Paths that a shell would still expand are left out,
// and so are files that its output goes to.
func namedFiles(line string) []string {
	var files []string
	for _, w := range word.FindAllString(line, -1) {
		if strings.HasPrefix(w, ">") || strings.ContainsAny(w, "$*?[]{}`\\") {
			continue
		}
		file := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(w), "./"), "/")
		if strings.HasPrefix(file, outFolder+"/") {
			files = append(files, file)
		}
	}
	return files
}

// checkNamed returns an error if a scoring command names a file or folder below out that is not there.
func (r *Result) checkNamed(files []workspace.File) error {
	for _, which := range []Which{Trained, Initial} {
		field, line := which.command(r)
		for _, named := range namedFiles(line) {
			there := slices.ContainsFunc(files, func(f workspace.File) bool {
				return strings.HasPrefix(outFolder+"/"+f.Name+"/", named+"/")
			})
			if !there {
				return NamesItsModel.Broken("its %s names %s in %s, and there is no such file. Expected all files that the command reads: one that is written once must stand below %s before the next checkpoint is, to be kept with it; one that the command itself writes belongs in TMPDIR", resultFile, named, field, outFolder)
			}
		}
	}
	return nil
}
