package main

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/secrets"
)

// secretExperiment is a small training with secret randomness on a source of its own.
func secretExperiment(t *testing.T) (file, dir string) {
	t.Helper()
	dir = t.TempDir()
	source := filepath.Join(dir, "text.jsonl")
	var b strings.Builder
	for i := range 400 {
		b.WriteString(`{"user":"u` + string(rune('a'+i%8)) + `","text":"one two three four five six seven eight"}` + "\n")
	}
	file = filepath.Join(dir, "experiment.yaml")
	text := `name: secret
data: {source: ` + source + `, vocabulary: {size: 8}, users: {words: 80}}
model: {embedding: 4, units: 4}
training: {rounds: 2, cohort: 4, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3, randomness: secret}}
`
	for path, content := range map[string]string{source: b.String(), file: text} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file, dir
}

func TestSecretRandomnessNeedsAKeyFile(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	home, key := filepath.Join(dir, "home"), filepath.Join(dir, "key")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", file}, exitUsage, "there is no key: name a key file by --secret-key"},
		{[]string{"plan", file, "--secret-key", key}, exitUsage, "run and submit create it"},
		{[]string{"run", file, "--secret-key", key}, exitDone, "wrote a new secret key to " + key},
		{[]string{"run", file, "--secret-key", key}, exitDone, ""},
	} {
		var stdout, stderr bytes.Buffer
		args := append(c.args, "--home", home)
		if code := execute(t.Context(), args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Fatalf("%v: exit status %d, %q; want %d and %q", c.args, code, stderr.String(), c.code, c.want)
		}
	}
	k, err := secrets.Read(key)
	if err != nil {
		t.Fatal(err)
	}
	noneHolds(t, home, k)
}

// noneHolds fails the test if a file below dir holds the key.
func noneHolds(t *testing.T, dir string, key secrets.Key) {
	t.Helper()
	secret := key.Bytes()
	digits := []byte(hex.EncodeToString(secret[:8]))
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, secret[:8]) || bytes.Contains(data, digits) {
			t.Errorf("%s holds the secret key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
