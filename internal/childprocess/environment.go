package childprocess

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// secretWords are words in the names of variables that hold secrets, and secretParts are parts of
// such words: PGPASSWORD, MYSQL_PWD, REDISCLI_AUTH.
var (
	secretWords = []string{"SECRET", "SECRETS", "TOKEN", "TOKENS", "CREDENTIAL", "CREDENTIALS", "KEY", "KEYS", "APIKEY", "PAT", "AWS", "COALMINE"}
	secretParts = []string{"PASS", "PWD", "AUTH"}
)

// directories are variables whose names are like those of secrets and tell where a shell is.
var directories = []string{"PWD", "OLDPWD"}

// environment is what the command gets. Temporary files of one that may not write everywhere are where
// it may.
func (c *Command) environment() []string {
	variables := withoutSecrets(c.Keep)
	if len(c.Write) > 0 {
		variables = append(variables, "TMPDIR="+c.Write[0])
	}
	return append(variables, c.Set...)
}

// withoutSecrets is the environment without variables that sound secret or hold an address with a
// password, but for those to keep.
func withoutSecrets(keep []string) []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return (soundsSecret(name) || hasPassword(value)) && !slices.Contains(keep, name)
	})
}

func soundsSecret(name string) bool {
	name = strings.ToUpper(name)
	if slices.Contains(directories, name) {
		return false
	}
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) }) ||
		slices.ContainsFunc(strings.Split(name, "_"), func(word string) bool { return slices.Contains(secretWords, word) })
}

// withPassword is an address with a password: scheme://user:password@host.
var withPassword = regexp.MustCompile(`://[^/\s@]*:[^/\s]*@`)

func hasPassword(value string) bool { return withPassword.MatchString(value) }
