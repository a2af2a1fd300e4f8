package external

import (
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
	"coalmine/storage/safetensors"
)

// word matches a word of a command line, without expanding it as a shell would.
var word = regexp.MustCompile(`>?\s*[^\s"'=;|&<>()]+`)

// namedFiles returns the paths below out that a command line names. It leaves out paths that a shell would
// expand, and files to which output is redirected.
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

// checkNamed returns an error if a command of the result names a file or folder below out that is not there.
func (r *Result) checkNamed(files []childprocess.File) error {
	for _, command := range []struct{ field, line string }{{"score", r.Score}, {"initial_score", r.Initial}, {"step", r.Step}} {
		for _, named := range namedFiles(command.line) {
			there := slices.ContainsFunc(files, func(f childprocess.File) bool {
				return strings.HasPrefix(outFolder+"/"+f.Name+"/", named+"/")
			})
			if !there {
				return NamesItsModel.Errorf("its %s names %s in %s, and there is no such file. Expected all files that the command reads: write a file that is written once below %s before the next checkpoint, to be kept with it; files that the command itself writes belong in TMPDIR", resultFile, named, command.field, outFolder)
			}
		}
	}
	return nil
}

// checkTensors returns an error if a file named .safetensors is not in that format, before a user loads the
// exported model.
func (x *training) checkTensors(files []childprocess.File) error {
	for _, f := range files {
		if !strings.HasSuffix(f.Name, ".safetensors") {
			continue
		}
		path := outFolder + "/" + f.Name
		data, err := x.workspace.Read(path, maxFile)
		if err != nil {
			return RegularFiles.Errorf("%v", err)
		}
		if _, err := safetensors.PartsOf(data); err != nil {
			return NamesItsModel.Errorf("%s is named as a safetensors file and is none: %v. Expected a file that the safetensors library writes, or another name", path, err)
		}
	}
	return nil
}
