package open

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// schemeLike matches the beginning of a URL, even a mistyped one. A single letter is a Windows
// drive.
var schemeLike = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]+):`)

// variable matches a shell variable that was not expanded.
var variable = regexp.MustCompile(`\$[A-Za-z_{(]`)

// Path resolves the path of a directory as users type it: ~/ is the home directory. It refuses
// mistyped URLs and shell syntax, because a directory of that name would be a mistake. Directories
// with such names can be given as ./NAME or as file:// URLs. A # may begin the fragment of a URL,
// so it is part of a name only if the directory exists.
func Path(path string) (string, error) {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%s: %w; name the directory in full", path, err)
		}
		return filepath.Join(home, path[1:]), nil
	case strings.HasPrefix(path, "~"):
		return "", refused(path, "only a shell knows the home of another user: name the directory in full")
	case variable.MatchString(path):
		return "", refused(path, "it holds a shell variable that was not expanded: name the directory in full, or let a shell expand it")
	case strings.HasPrefix(path, "#") || strings.Contains(path, " #"):
		return "", refused(path, "it holds a comment: remove it")
	case strings.Contains(path, "#") && !exists(path):
		return "", refused(path, "it does not exist, and # may not be intended as part of the name: remove it, or make the directory first")
	case strings.TrimSpace(path) != path, strings.ContainsFunc(path, isControl), strings.Trim(path, `"'`) != path:
		return "", refused(path, "it begins or ends with a space or a quote, or holds a control character: remove it")
	}
	if scheme := schemeLike.FindStringSubmatch(path); scheme != nil {
		// Not the whole path: a mistyped URL may hold a password.
		return "", fmt.Errorf("%q is neither a URL nor a path: want s3://bucket/prefix, file:///absolute/path, or a directory, as ./%s:… if its name begins so", scheme[1]+":…", scheme[1])
	}
	if strings.HasPrefix(path, "s3//") || strings.HasPrefix(path, "file//") {
		return "", errors.New("a colon is missing: want s3://bucket/prefix, or file:///absolute/path")
	}
	return path, nil
}

func refused(path, why string) error {
	return fmt.Errorf("%q does not look like a directory: %s; for a directory with this name, write a file:// URL", path, why)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
