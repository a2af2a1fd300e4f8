package childprocess

import (
	"os"
	"slices"
	"strings"
)

// markVariable stands in the environment of a command and of all that it starts.
const markVariable = "COALMINE_CHILD"

// secretWords are words in the names of variables that hold secrets.
var secretWords = []string{"SECRET", "SECRETS", "TOKEN", "TOKENS", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "KEY", "KEYS", "APIKEY", "AWS", "COALMINE"}

// withoutSecrets is the environment without variables that sound secret, but for those to keep.
func withoutSecrets(keep []string) []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return soundsSecret(name) && !slices.Contains(keep, name)
	})
}

func soundsSecret(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToUpper(name), "_"), func(word string) bool { return slices.Contains(secretWords, word) })
}
